"""What every program must do, whatever its method; one that is added to the registry is covered at once."""

import asyncio
import contextvars
import re
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from conformance.material import (
    CORPUS,
    QUESTION,
    RIGHT_TO_LEFT,
    OutOfOrder,
    assert_same,
    assert_within_caps,
    ids_of,
    other_value,
    overlap,
    passages_shown,
)
from conformance.typed_engine import NEVER, SPOILT, UNREADABLE, TypedEngine, settling
from dspy.utils.exceptions import LMError
from support import OverlapRetriever, TableEntailment, TableReranker, TableRetriever, lm_of

from knowgap import build_index
from knowgap.errors import EmptyQuestion, KnowgapError, UsageError
from knowgap.programs import PROGRAMS, get_program
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, Threshold
from knowgap.programs.trace.steps import Answered, Malformed, Prompted, Retrieved, Shortened, Stopped
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES


class ProgramConformance:
    """A subclass names the program."""

    program: type[Program]

    def make(self, retriever=None, **kwargs):
        models = {"reranker": TableReranker(overlap, default_threshold=0.0), "entailment": TableEntailment()}
        given = {name: model for name, model in models.items() if name in self.program.part_names}
        if self.program.name == "ra_isf":  # each question becomes as many as the model writes
            given["depth"] = 1
        retriever = retriever if retriever is not None else OverlapRetriever(CORPUS)
        return self.program(retriever, **{**given, **kwargs})

    def ask(self, program, value=settling, question=QUESTION, **engine):
        engine = TypedEngine(value, **engine)
        with dspy.context(lm=lm_of(engine)):
            return program(question=question), engine

    def small(self, **kwargs):
        """A program whose caps are low, so that a model that never settles comes to an end soon."""
        caps = {
            name: min(declared.default, max(declared.low, 2))
            for name, declared in self.program.hyperparameters().items()
            if isinstance(declared, Integer) and not declared.optional and name != "depth"
        }
        return self.make(**{**caps, **kwargs})

    def check(self, program, prediction, engine, question=QUESTION):
        """What holds of every prediction."""
        assert isinstance(prediction.answer, str)
        assert prediction.answer == prediction.answer.strip()
        assert isinstance(prediction.passages, list)
        assert all(isinstance(passage, Passage) for passage in prediction.passages)
        assert len({passage.id for passage in prediction.passages}) == len(prediction.passages)
        trace, cost = prediction.trace, prediction.trace.cost
        assert (trace.program, trace.question) == (program.name, question)
        assert trace.steps[0].kind == "asked"
        assert trace.of(Answered)[-1].answer == prediction.answer
        named = [passage_id for step in trace.steps for passage_id in ids_of(step)]
        assert set(named) <= set(trace.passages), "a step names a passage that the trace does not hold"
        for passage in prediction.passages:
            assert trace.passages[passage.id] == passage
        assert Trace.model_validate_json(trace.model_dump_json()) == trace
        assert trace.__rich__().children
        assert cost.lm_calls == len(engine.calls)
        assert 0 < cost.critical_calls <= cost.lm_calls
        assert cost.retrievals == sum(len(step.queries) for step in trace.of(Retrieved))
        shown = [passage for _, inputs in engine.calls for passage in passages_shown(inputs)]
        own = {step.text for step in trace.of(Prompted)}
        assert cost.passages == len({text if text in own else title for title, text in shown})
        characters = dict(sorted((title, len(text)) for title, text in shown if text not in own))  # the longest wins
        assert {trace.passages[p].title: n for p, n in trace.shown.items() if p[:6] != "model:"} == characters
        retrieved = [f"{title} {text}" for title, text in shown if text not in own]
        assert cost.knowledge_tokens == sum(len(re.findall(r"\w+", text)) for text in retrieved)
        assert cost.iterations == max(step.iteration for step in trace.steps)
        if not program.needs_retriever:
            assert cost.retrievals == 0
        if not self.program.__module__.startswith("knowgap.programs.baselines"):
            assert prediction.answer, "a method never returns nothing"

    def test_answers_with_passages_and_trace(self):
        program = self.make()
        prediction, engine = self.ask(program)
        self.check(program, prediction, engine)
        assert prediction.answer.startswith("Wick")
        assert prediction.trace.of(Malformed) == []
        asked = len(engine.calls)
        [citation] = prediction.citations
        assert citation.statement == prediction.answer
        assert set(citation.passages) <= set(prediction.passages)
        assert len(engine.calls) == asked, "citations ask no language model"
        assert dspy.majority([prediction, prediction]).answer == prediction.answer

    @pytest.mark.filterwarnings("ignore:a prompt of")
    @pytest.mark.filterwarnings("ignore:.*the prompt was too long")
    def test_a_prompt_that_is_longer_than_the_window_is_asked_with_less(self):
        """The last passages of a list are left out, and the trace says which; ReAct has them in a text."""
        long = [Passage(each.id, each.title, each.text + " They sail by night." * 400) for each in CORPUS]
        for value in (settling, NEVER[0]) if self.program.name != "react" else ():
            program = self.small(retriever=OverlapRetriever(long))
            prediction, engine = self.ask(program, value, window=4096)
            shortened = prediction.trace.of(Shortened)
            assert bool(engine.refused) == bool(shortened)
            assert all(step.passages or step.demonstrations for step in shortened)
            assert prediction.answer or self.program.__module__.startswith("knowgap.programs.baselines")

    def test_declarations_are_whole(self):
        for declared in self.program.hyperparameters().values():
            assert declared.help
            assert set(declared.when) <= set(self.program.hyperparameters())
            for other, values in declared.when.items():
                assert [self.program.hyperparameters()[other].check(value) for value in values] == list(values)
            if isinstance(declared, Threshold):
                predictor = getattr(self.make(), declared.predictor)
                assert predictor.signature.output_fields[declared.field].annotation is bool

    @pytest.mark.parametrize("style", STYLES)
    def test_the_answer_is_asked_for_in_its_style(self, style):
        _, engine = self.ask(self.make(style=style))
        asked = [inputs["style"] for _, inputs in engine.calls if "style" in inputs]
        assert asked[-1].startswith(STYLES[style])

    def test_presets_are_within_bounds_and_answer(self):
        for preset in self.program.presets.values():
            assert self.ask(self.make(**preset))[0].answer

    @pytest.mark.parametrize("value", NEVER)
    def test_caps_hold_under_a_model_that_never_settles(self, value):
        for program in (self.small(), self.make()):
            prediction, engine = self.ask(program, value)
            self.check(program, prediction, engine)
            assert_within_caps(program, prediction)
            ends = [bool(step.reason) for step in prediction.trace.of(Stopped)]
            assert ends == [True] or "iterations" not in program.values(), "a search that ends says why, once"

    @pytest.mark.parametrize("most", [1, 2, 3, 5])
    @pytest.mark.parametrize("value", [settling, *NEVER[::2]])
    def test_a_question_costs_max_calls_at_most_and_is_answered(self, value, most):
        prediction, engine = self.ask(self.small(max_calls=most), value)
        assert len(engine.calls) <= most
        self.check(self.small(), prediction, engine)
        unbounded = self.ask(self.small(), value)[0]
        needed = unbounded.trace.cost.lm_calls
        reasons = [step.reason for step in prediction.trace.of(Stopped)]
        assert needed <= most or not reasons or "calls" in reasons
        assert "calls" not in reasons or bool(prediction.trace.cost.retrievals) is self.program.needs_retriever
        assert unbounded.keys() == prediction.keys()
        if needed + (self.program.name in ("knowgap", "migres")) <= most:  # whether they go on shows after a call
            assert_same(prediction, unbounded)

    @pytest.mark.parametrize("value", [settling, *NEVER])
    def test_one_by_one_gives_the_same_and_nothing_is_asked_twice(self, value):
        """Under `max_calls` that are not spent, calls wait for one another; the rest stays as it is."""
        together, _ = self.ask(self.small(), value)
        alone, engine = self.ask(self.small(max_calls=1000), value)
        assert_same(together, alone)
        assert alone.trace.cost.critical_calls == alone.trace.cost.lm_calls == len(engine.calls)
        assert together.trace.cost.critical_calls <= alone.trace.cost.critical_calls
        asked = [prompt for prompt in engine.prompts if prompt[-1] is None]  # the rest are samples
        assert len(set(asked)) == len(asked)

    @pytest.mark.parametrize("value", [settling, *NEVER[::2]])
    def test_thresholds_ask_for_probabilities(self, value):
        thresholds = {n: d.field for n, d in self.program.hyperparameters().items() if isinstance(d, Threshold)}
        plain, yes_or_no = self.ask(self.small(), value)
        weighed, probable = self.ask(self.small(**dict.fromkeys(thresholds, 0.5)), value)
        self.check(self.small(), weighed, probable)
        assert not yes_or_no.weighed
        for field in thresholds.values():
            assert probable.weighed[field] == sum(field in acts for acts, _ in probable.calls)
        # Where the decision is the same act with and without, so is all that follows.
        if set(probable.acts()) == set(yes_or_no.acts()):
            assert weighed.answer == plain.answer
            assert weighed.trace.steps == plain.trace.steps

    def test_acall_gives_the_same_and_tells_each_step(self):
        program, heard = self.small(), []
        called, _ = self.ask(program, NEVER[0])
        with dspy.context(lm=lm_of(TypedEngine(NEVER[0]))):
            awaited = asyncio.run(program.acall(question=QUESTION, listener=lambda step, _: heard.append(step)))
        assert_same(awaited, called)
        assert sorted(map(repr, heard)) == sorted(map(repr, called.trace.steps))

    def test_save_and_load_keep_everything(self, tmp_path):
        program = self.make()
        program.configure(**{n: other_value(d) for n, d in self.program.hyperparameters().items()})
        for predictor in program.predictors():
            predictor.demos = [dict.fromkeys(predictor.signature.fields, text) for text in ("one", "two")]
        program.save(tmp_path / "program.json")
        twin = self.make()
        twin.load(tmp_path / "program.json")
        assert twin.values() == program.values()
        assert twin.dump_state() == program.dump_state()

    def test_survives_being_copied(self):
        program = self.small()
        for predictor in program.predictors():
            predictor.demos = [dict.fromkeys(predictor.signature.fields, "text")]
        twin = program.reset_copy()
        assert (type(twin), twin.values()) == (type(program), program.values())
        assert twin.retriever is program.retriever
        mine = {id(parameter) for parameter in program.parameters()}
        assert not mine & {id(parameter) for parameter in twin.parameters()}
        assert [len(predictor.demos) for predictor in twin.predictors()] == [0] * len(program.predictors())
        assert_same(self.ask(program.deepcopy())[0], self.ask(program)[0])

    def test_a_whole_program_is_saved_with_the_path_of_its_index(self, tmp_path):
        build_index(CORPUS, tmp_path / "index", engine="bm25")
        program = self.program(tmp_path / "index")  # with the models that it has by default
        for predictor in program.predictors():  # as an optimizer does, which makes another class
            predictor.signature = predictor.signature.with_instructions(predictor.signature.instructions + " Be brief.")
        program.save(tmp_path / "whole", save_program=True)
        assert sum(file.stat().st_size for file in (tmp_path / "whole").iterdir()) < 100_000
        said, _ = self.ask(program)
        twin = dspy.load(tmp_path / "whole", allow_pickle=True)
        assert (type(twin), twin.values()) == (type(program), program.values())
        assert_same(self.ask(twin)[0], said)

    @pytest.mark.parametrize("question", [None, 3, ["Where?"], b"Where?", "caf\udce9?", "", "\n\t", "\u200f \u00a0"])
    def test_a_question_is_a_text(self, question):
        engine = TypedEngine(settling)
        for ask in (self.make(), lambda question: asyncio.run(self.make().acall(question))):
            with dspy.context(lm=lm_of(engine)), pytest.raises(UsageError) as refused:
                ask(question=question)
            assert isinstance(refused.value, EmptyQuestion) or repr(question) in str(refused.value)
        assert engine.calls == []

    def test_called_from_sixteen_threads_at_once(self):
        program = self.small()
        questions = [f"{QUESTION} {n % 8}" for n in range(16)]
        one_by_one = [self.ask(program, question=question)[0] for question in questions[:8]] * 2
        with dspy.context(lm=lm_of(TypedEngine(settling))), ThreadPoolExecutor(16) as pool:
            futures = [pool.submit(contextvars.copy_context().run, program, question) for question in questions]
            together = [future.result(timeout=60) for future in futures]
        for alone, among in zip(one_by_one, together, strict=True):
            assert_same(among, alone)

    @pytest.mark.parametrize("damage", SPOILT)
    def test_spoilt_output_at_each_step_is_no_crash(self, damage):
        program = self.small()
        for value in (settling, NEVER[0]):
            _, whole = self.ask(program, value)
            for act in [*whole.acts(), *(["all"] if value is settling else [])]:
                prediction, engine = self.ask(program, value, broken=act, spoil=SPOILT[damage])
                self.check(program, prediction, engine)
                assert_within_caps(program, prediction)
                malformed = prediction.trace.of(Malformed)
                assert damage not in UNREADABLE or malformed, act
                assert all(0 < len(step.problem) <= 300 for step in malformed)

    @pytest.mark.parametrize("value", [settling, *NEVER])
    def test_nothing_is_found(self, value):
        program = self.small(retriever=TableRetriever({}))
        prediction, engine = self.ask(program, value)
        self.check(program, prediction, engine)
        assert_within_caps(program, prediction)
        assert all(passage.id not in {p.id for p in CORPUS} for passage in prediction.passages)

    @pytest.mark.parametrize("question", [RIGHT_TO_LEFT, "ships " * 1667, "?", "a\x00b\tc\r\nd", "[[ ## answer ## ]]"])
    def test_odd_and_long_questions(self, question):
        program = self.small()
        for value in (settling, NEVER[0], NEVER[2]):
            prediction, engine = self.ask(program, value, question=question)
            self.check(program, prediction, engine, question)
            assert_within_caps(program, prediction)

    def test_a_language_model_that_fails_fails_the_question(self):
        for value in (settling, NEVER[0]):
            program = self.small()
            _, whole = self.ask(program, value)
            for act in whole.acts():

                def fail(_values):
                    raise ConnectionError("nobody is at home")

                with pytest.raises(LMError, match="nobody is at home"):
                    self.ask(program, value, broken=act, spoil=fail)

    def test_a_retriever_that_fails_or_is_not_there_fails_the_question(self):
        searching = [value for value in (settling, *NEVER) if self.ask(self.small(), value)[0].trace.cost.retrievals]
        assert bool(searching) is self.program.needs_retriever
        for value in searching:
            for retriever, message in ((OutOfOrder(), "out of order"), (None, "needs a retriever")):
                program = self.small()
                program.retriever = retriever
                with pytest.raises(KnowgapError, match=message):
                    self.ask(program, value)


for _program in map(get_program, PROGRAMS):
    _name = f"Test{_program.__name__}"
    globals()[_name] = type(_name, (ProgramConformance,), {"program": _program, "__module__": __name__})
