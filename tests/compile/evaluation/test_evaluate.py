"""Evaluation: nothing left out, nothing asked twice, the same result for any number of threads."""

from contextlib import closing
from typing import ClassVar

import dspy
import pytest
from compile_helpers import failing_on, make_retriever, reading_lm, reading_rule
from page_reader import read_page
from support import UNREADABLE, AroundTheMeter, scripted_lm

from knowgap.compiling import Evaluations, compare, estimate, evaluate
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.run import Run
from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.lms.cancelling import pause
from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG, Direct
from knowgap.reports.pages import render_report
from knowgap.reports.tables import score_tables


def test_scores_costs_and_provenance(program, examples):
    lm, engine = reading_lm()
    seen = []
    data = Dataset("houses", {"dev": examples}, [], "digest")
    found = evaluate(program, data, ["exact_match", "f1"], run=Run(lm=lm, progress=lambda *step: seen.append(step)))
    assert [r.id for r in found.records] == [e.id for e in examples]
    assert found.metrics == ["exact_match", "f1"]
    assert found.mean() == found.mean("f1") == 1.0
    costs = found.costs()
    assert (costs["lm_calls"], costs["retrievals"]) == (1, 1)
    assert costs["tokens"] > 0
    assert costs["knowledge_tokens"] == 5 * (2 + 5)  # five passages such as "house q3", "Ada lives in house q3."
    origin = found.provenance
    assert (origin.split, origin.lm, origin.hyperparameters) == ("dev", "test/scripted", program.values())
    assert origin.model_extra == {"dataset": "houses", "dataset_fingerprint": "digest"}
    assert len(engine.calls) == len(examples)
    assert [done for done, _, _ in seen] == list(range(1, 9))
    assert seen[-1] == (8, 8, "exact_match 1.000")
    assert found.by_type().keys() == {"even", "odd"}


class Judging(Program):
    """Answers every question, and calls what it says of the houses with even numbers supported."""

    verdict: ClassVar[bool] = True

    def forward(self, question):
        if "q7" in question:
            raise ValueError("no")
        even = int(question[-2]) % 2 == 0
        answer = "unknown" if "q5" in question else "Ada"
        said = {"supported": even, "missing": "" if even else question} if self.verdict else {}
        return dspy.Prediction(answer=answer, passages=[], **{"supported": None, "missing": "", **said})


def test_refusals_are_counted_on_both_sides_if_some_questions_are_unanswerable(examples):
    for example in examples[:4]:
        example.answer, example.aliases = "unanswerable", ["unanswerable"]
    lm, _ = scripted_lm({})
    program = Judging()
    judged = evaluate(program, examples, "exact_match", run=Run(lm=lm))
    assert [(r.supported, r.missing != "") for r in judged.records[:3]] == [(True, False), (False, True), (True, False)]
    counts = {"unanswerable": 4, "answered": 2, "answerable": 4, "refused": 1}  # q5; q7 failed
    assert judged.refusals() == judged.summary()["refusals"] == {**counts, "verdict": True}
    assert [judged.scores()[name] for name in ("q0", "q1", "q2", "q3")] == [0, 1, 0, 1]
    program.verdict = False
    plain = evaluate(program, examples, "exact_match", run=Run(lm=lm))
    assert plain.refusals() == {**counts, "answered": 4, "verdict": False}
    page = read_page(render_report(Evaluations(judging=judged)))
    assert page.table("answerable, but refused")[1][1:] == ["2 of 4", "1 of 4", "the program's"]
    assert evaluate(program, examples[4:], "exact_match", run=Run(lm=lm)).refusals() == {}


def test_what_became_of_the_gold_passages_is_counted(examples):
    lm, _ = scripted_lm(failing_on("q3"))
    examples[1].gold_ids = []
    examples[2].gold_ids = ["q2", "elsewhere"]
    examples[4].gold_ids = ["q4", "noise"]
    program = RAG(make_retriever(examples), top_k=1)
    found = evaluate(program, examples, ["exact_match", "recall"], run=Run(lm=lm))
    # One passage is retrieved and read for each question; the fourth fails; the second has no gold passage.
    others = {"q0": 1.0, "q5": 1.0, "q6": 1.0, "q7": 1.0}
    for metric in ("recall", "found", "shown", "used"):
        assert found.scores(metric) == {**others, "q2": 0.5, "q4": 0.5, "q3": 0.0}
    assert found.scores("shown_precision") == {**others, "q2": 1.0, "q4": 1.0, "q3": 0.0}
    assert (found.records[1].scores, found.interval("recall").n) == ({"exact_match": 1.0, "recall": None}, 7)
    with pytest.raises(UnknownName, match="'mrr'"):
        found.mean("mrr")
    assert found.records[2].evidence == {"q2": "used for the answer", "elsewhere": "not searched for"}
    assert {fate: share for fate, share in found.evidence().items() if share} == pytest.approx(
        {"question failed": 1 / 7, "not searched for": (0.5 + 0.5) / 7, "used for the answer": (4 + 0.5 + 0.5) / 7}
    )
    assert found.evidence()["used for the answer"] == pytest.approx(found.mean("used"))
    assert evaluate(RAG(make_retriever(examples)), examples[1:2], "f1", run=Run(lm=lm)).evidence() == {}


def test_what_no_question_can_mend_is_raised(program, examples, lm):
    data = Dataset("empty", {"dev": []}, [], "digest")
    for message, asked, questions, options in (
        ("needs a retriever", RAG(), examples, {}),
        ("no language model", program, examples, {"run": Run()}),
        ("nothing to ask", program, [], {}),
        ("nothing to ask", program, examples, {"limit": -1}),
        ("is used twice", program, [examples[0], examples[0]], {}),
        ("needs the field answer", program, [dspy.Example(question="Who?")], {}),
        ("at least one thread", program, examples, {"run": Run(lm=lm, num_threads=0)}),
        ("name programs", {}, examples, {}),
        ("given are rag, rag", [program, program], examples, {}),
        ("pass the data set itself", program, examples, {"split": "test"}),
        ("no questions in its split 'dev'", program, data, {}),
    ):
        with pytest.raises((UsageError, DataError), match=message):
            evaluate(asked, questions, "f1", **{"run": Run(lm=lm), **options})


def test_unreadable_replies_are_counted_and_an_evaluation_is_saved(program, examples, tmp_path):
    lm, _ = scripted_lm(lambda o, i: UNREADABLE if "q3" in i["question"] else reading_rule(o, i))
    found = evaluate(program, examples, "exact_match", run=Run(lm=lm))
    assert (found.summary()["failed"], found.summary()["unreadable"], found.summary()["cut"]) == (1, 2, 0)
    assert found.costs()["unreadable"] == 2 / 8
    assert found.scores("exact_match")["q3"] == 0
    [failure] = found.failures
    assert failure.failure == "no readable answer: 2 of 2 replies could not be read"
    file = Evaluations({"rag": found}).save(tmp_path / "new")
    assert Evaluations.load(tmp_path / "new") == Evaluations.load(file) == {"rag": found}
    file.write_text('{"records": 3}')
    with pytest.raises(DataError, match=r"new/evaluations\.json"):
        Evaluations.load(file)


def test_unreadable_replies_are_no_refusal_whatever_the_program_concludes(examples):
    class Concluding(RAG):
        def forward(self, question):
            return self.conclude(super().forward(question).answer or "unknown", [], supported=False)

    for example in examples[:2]:
        example.answer, example.aliases = "unanswerable", []
    lm, _ = scripted_lm(lambda o, i: UNREADABLE if "q0" in i["question"] or "q2" in i["question"] else {"answer": "?"})
    found = evaluate(Concluding(make_retriever(examples)), examples, "f1", run=Run(lm=lm))
    assert [record.id for record in found.failures] == ["q0", "q2"]
    assert [found.scores()[name] for name in ("q0", "q1", "q2")] == [0, 1, 0]
    counts = found.refusals()
    assert (counts["answered"], counts["answerable"], counts["refused"]) == (0, 6, 5)


def test_a_program_that_has_its_own_language_model_is_estimated(program, examples):
    program.set_lm(reading_lm()[0])
    assert (estimate(program, examples).calls, estimate(program, examples, count=16).calls) == (8, 16)
    program.set_lm(scripted_lm(failing_on("house"))[0])
    with pytest.raises(UsageError, match="fell asleep"):
        estimate(program, examples)


def test_several_programs_are_asked_the_same_questions_and_compared_with_the_first(program, examples, tmp_path):
    lm, engine = reading_lm()
    weak, seen = program.deepcopy(), []
    weak.set_lm(scripted_lm(failing_on("q0", "q1", "q2", "q3", "q4", "q5"))[0])
    programs = {"weak": weak, "mine:strong": program}
    options = {"run": Run(lm=lm, progress=lambda *step: seen.append(step)), "output": tmp_path}
    found = evaluate(programs, examples, ["exact_match", "f1"], **options)
    assert seen[-1] == (16, 16, "mine:strong: exact_match 1.000")
    assert sorted(file.name for file in tmp_path.glob("*.jsonl")) == ["mine-strong.jsonl", "weak.jsonl"]
    assert evaluate(programs, examples, ["exact_match", "f1"], **options) == found
    assert len(engine.calls) == 8
    assert list(evaluate([program, Direct()], examples, "f1", run=Run(lm=lm), limit=1)) == ["rag", "direct"]
    before, after = found.values()
    pair = compare(before, after)
    assert (pair.difference, pair.wins, pair.losses, pair.ties, pair.n) == (0.75, 6, 0, 2, 8)
    assert pair.p_value == pytest.approx(2 * 2**-6)  # all six signs equal, both sides
    assert pair.low > 0
    assert compare(before, before).p_value == 1.0
    fewer = before.model_copy(update={"records": before.records[:1]})
    with pytest.raises(UsageError, match="same questions"):
        compare(before, fewer)
    several = Evaluations({**found, "third": after, "fewer": fewer})
    corrected = {label: each.p_corrected for label, each in several.comparisons("f1").items()}
    assert corrected == dict.fromkeys(("mine:strong", "third"), 2 * pair.p_value)
    *_, by_type = score_tables("all", several, types=True)
    assert [row[:2] for row in by_type.rows] == [["even", 4], ["odd", 4]]


def test_questions_under_way_make_no_further_calls_once_the_caller_has_enough():
    called = []

    def ask(number):
        if number:
            called.append(number)
            pause(3)
            called.append(-number)
        return number

    with closing(map_ordered(ask, range(8), 4, ahead=4)) as stream:
        assert next(stream) == 0
    assert {*called} <= {1, 2, 3, 4}


def test_calls_around_the_meter_are_shown_and_what_they_cost_is_unknown(program, examples, lm):
    """No summary, table or page gives a number for what nobody counted."""
    programs = {"around": program.deepcopy(), "plain": program}
    programs["around"].answer.lm = AroundTheMeter("openai/around")
    found = evaluate(programs, examples, "f1", run=Run(lm=lm))
    around, plain = found.values()
    assert (around.summary()["uncounted"], plain.summary()["uncounted"]) == (8, 0)
    unknown = {name for name, mean in around.summary()["costs"].items() if mean is None}
    assert unknown > {"lm_calls", "tokens", "unreadable"}
    assert unknown.isdisjoint({"retrievals", "passages", "iterations", "seconds"})
    assert None not in plain.costs().values()
    assert not around.defines("tokens")
    assert "LM calls: not all counted" in repr(around)
    scores, *_ = score_tables("both", found)
    shown = [dict(zip(scores.columns, row, strict=True)) for row in scores.rows]
    assert [(row["LM calls"], row["uncounted"]) for row in shown] == [("–", 8), ("1.0", 0)]
