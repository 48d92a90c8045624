"""The conformance suite on RQ-RAG with a generator: a tiny model in the place of the language model."""

import threading
from collections import Counter
from contextlib import nullcontext

import pytest
from conformance.material import QUESTION
from conformance.program_suite import ProgramConformance
from conformance.typed_engine import settling

from knowgap.errors import LanguageModelError
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.programs.rq_rag import RQRAG
from knowgap.programs.trace.steps import Malformed


class Recorder:
    """A generator that keeps what was asked of another one, in the form in which the suite reads calls.

    Args:
        generator: what writes.
        broken: the action at which nothing can be read, or at which it fails.
        spoil: called instead of writing there.
    """

    def __init__(self, generator, broken=None, spoil=None):
        self.generator, self.broken, self.spoil = generator, broken, spoil
        self.name, self.digest = generator.name, generator.digest
        self.calls, self.weighed, self._lock = [], Counter(), threading.Lock()

    def acts(self):
        return list(dict.fromkeys(act for act, _ in self.calls))

    def start(self, question, instruction):
        return _Transcript(self, self.generator.start(question, instruction), instruction)

    def __deepcopy__(self, memo):
        return self


class _Transcript:
    def __init__(self, recorder, transcript, instruction):
        self.recorder, self.transcript, self.instruction = recorder, transcript, instruction
        self.shown = {"": []}

    def read(self, path, passages):
        count = self.transcript.read(path, passages)
        before = {passage["title"]: passage for passage in self.shown[path.rpartition("/")[0]]}
        new = {p.title: {"title": p.title, "text": p.text} for p in passages[:count]}
        self.shown[path] = list({**before, **new}.values())
        return count

    def write(self, branches):
        for path, action in branches:
            inputs = {"passages": self.shown[path], **({"style": self.instruction} if action == "answer" else {})}
            with self.recorder._lock:
                self.recorder.calls.append(((action,), inputs))
        written = self.transcript.write(branches)
        if self.recorder.spoil is None:
            return written
        return [
            self.recorder.spoil(each) if action == self.recorder.broken else each
            for each, (_, action) in zip(written, branches, strict=True)
        ]


@pytest.fixture(scope="module", autouse=True)
def generator(tiny_generator):
    TestRQRAGWithGenerator.generator = TranscriptGenerator(tiny_generator, device="cpu", max_new_tokens=24)


class TestRQRAGWithGenerator(ProgramConformance):
    program = RQRAG
    generator = None

    def make(self, retriever=None, **kwargs):
        return super().make(retriever, **{"generator": self.generator, **kwargs})

    def ask(self, program, value=settling, question=QUESTION, **engine):
        recorder = Recorder(self.generator, **engine)
        twin = program.deepcopy()
        twin.generator, twin.retriever = recorder, program.retriever
        return twin(question=question), recorder

    def answered(self, value):
        return nullcontext()

    def test_answers_with_passages_and_trace(self):
        program = self.make()
        prediction, recorder = self.ask(program)
        self.check(program, prediction, recorder)
        assert prediction.measure == "token log-probabilities"
        assert any(leaf["passages"] for leaf in prediction.leaves)
        assert prediction.trace.cost.completion_tokens > prediction.trace.cost.lm_calls

    @pytest.mark.parametrize("act", ["rewrite", "decompose", "disambiguate", "answer"])
    def test_spoilt_output_at_each_step_is_no_crash(self, act):
        def nothing(written):
            return written._replace(text="", problem="no [EOS] within 8 tokens", cut=True)

        program = self.small()
        prediction, recorder = self.ask(program, broken=act, spoil=nothing)
        self.check(program, prediction, recorder)
        if (act,) in recorder.acts():
            assert act in {step.act for step in prediction.trace.of(Malformed)}
            assert prediction.trace.cost.cut >= 1

    def test_a_language_model_that_fails_fails_the_question(self):
        def fail(written):
            raise LanguageModelError("out of memory")

        with pytest.raises(LanguageModelError, match="out of memory"):
            self.ask(self.small(), broken="answer", spoil=fail)

    def assert_same(self, one, other):
        """Apart from the last digits of probabilities, which depend on the size of a batch."""
        assert (one.answer, one.passages) == (other.answer, other.passages)
        assert [leaf["confidence"] for leaf in one.leaves] == pytest.approx(
            [leaf["confidence"] for leaf in other.leaves], abs=1e-4
        )
        assert [(s.kind, s.branch) for s in one.trace.steps] == [(s.kind, s.branch) for s in other.trace.steps]

    def test_one_by_one_gives_the_same_answer_and_steps(self):
        paper = RQRAG.preset("multi_hop")
        (together, _), (alone, recorder) = (self.ask(self.small(**paper, concurrent=c)) for c in (True, False))
        self.assert_same(together, alone)
        assert alone.trace.cost.critical_calls == alone.trace.cost.lm_calls == len(recorder.calls)
        assert together.trace.cost.critical_calls < alone.trace.cost.critical_calls

    # Of prompts and replies, which a generator does not have; it cuts what it reads to its window by itself.
    test_a_prompt_that_is_longer_than_the_window_is_asked_with_less = None
    test_right_to_left_answers_come_through = None
    test_thresholds_ask_for_probabilities = None
    test_the_same_is_not_asked_twice_for_a_question = None

    def test_the_same_depth_beam_and_selection_as_with_prompts(self):
        wide, _ = self.ask(self.make(depth=1, strategy="perplexity"))
        assert {leaf["path"] for leaf in wide.leaves} <= {"direct", "rewrite", "decompose", "disambiguate"}
        assert all(leaf["perplexity"] >= 1 for leaf in wide.leaves)
        narrow, recorder = self.ask(self.make(depth=2, beam_width=1))
        assert len([act for act, _ in recorder.calls if act != ("answer",)]) <= 6
        assert len(narrow.leaves) <= 7
