"""Many questions: in order, and without needless pauses."""

from __future__ import annotations

import gc
from contextlib import closing

from knowgap.compiling.evaluation.runner import map_ordered


def test_cycles_are_looked_for_less_often_while_questions_are_asked():
    before = gc.get_threshold()
    with closing(map_ordered(lambda n: gc.get_threshold()[0], range(3), 2)) as outer:
        assert next(outer) > before[0]
        assert [*map_ordered(lambda n: gc.get_threshold()[0], range(2), 1)] == [gc.get_threshold()[0]] * 2
        assert gc.get_threshold()[0] > before[0]  # the outer one goes on
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off():
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        assert [*map_ordered(lambda n: gc.get_threshold()[0], range(2), 1)] == [0, 0]
    finally:
        gc.set_threshold(*before)
