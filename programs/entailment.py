"""What says for programs which passages state a statement: the rule of words, a given model, or the LM itself."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import dspy

from knowgap.programs.replies.asking import ask_until_read
from knowgap.programs.trace.recorder import active_recorder
from knowgap.retrieval.entailment import EntailmentModel, make_entailment
from knowgap.retrieval.grounding import GroundingEntailment
from knowgap.retrieval.passage import NeverCopied
from knowgap.signatures import SourcePassage, WhichPassages

LM = "lm"
"""The name that asks for `LMEntailment`."""


class LMEntailment(NeverCopied):
    """Asks the language model in DSPy's settings which of the premises state which of the hypotheses, in one call.

    Within a question, the call counts in its costs; if `max_calls` leaves none besides the answer, the rule of
    `grounding` judges.
    """

    name = LM
    default_threshold = 0.5

    def __init__(self) -> None:
        self._which = dspy.Predict(WhichPassages)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """1 for each (premise, hypothesis) pair of which the model says so, alone or with other premises, else 0.

        If the reply cannot be read, it says so of none.

        Raises:
            LMError: the language model does not answer.
        """
        premises, statements = (list(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True)) if pairs else ([], [])
        recorder = active_recorder()
        if not pairs or (recorder is not None and not recorder.budget.may_spend()):
            return GroundingEntailment().entails(pairs)
        if recorder is not None:
            recorder.budget.spend()
        passages = [SourcePassage(id=n, title="", text=text) for n, text in enumerate(premises, start=1)]
        started = time.perf_counter()
        with dspy.context(trace=None):  # no demonstration of a program
            reply = ask_until_read(self._which, {"passages": passages, "statements": statements})
        if recorder is not None:
            recorder.count_request(reply.usage, time.perf_counter() - started)
        named = (reply.prediction.sources or []) if reply.prediction is not None else []
        stated = {s: {int(n) for n in re.findall(r"\d+", each)} for s, each in zip(statements, named, strict=False)}
        number = {premise: n for n, premise in enumerate(premises, start=1)}
        return [float(number[premise] in stated.get(hypothesis, ())) for premise, hypothesis in pairs]


def entailment_of(given: EntailmentModel | str | None) -> EntailmentModel:
    """The model of a program's argument `entailment`: itself, by name, or the rule of `grounding` for None.

    Raises:
        CheckpointError: there is no model of this name.
    """
    if given is None:
        return GroundingEntailment()
    return given if not isinstance(given, str) else LMEntailment() if given == LM else make_entailment(given)
