"""Write questions from an index with a language model: draft, check, and replace what the checks drop."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.answers import normalize_answer
from knowgap.compiling.evaluation.provenance import lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import fatal_cause, is_connection_error, resolve_lm
from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.questions.material import Corpus, Material
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import ask_teacher, check_teacher
from knowgap.errors import LanguageModelError, UnknownName, UsageError
from knowgap.lms.metering import UsageTracker, track_usage
from knowgap.programs.replies.text import text_of
from knowgap.retrieval.indexes import as_retriever
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.retrieval.words import words
from knowgap.signatures import STYLES, JudgeAnswer
from knowgap.signatures.questions import AnswerIfSettled, ReadQuestion, WriteOneHop, WriteTwoHops
from knowgap.storage.files import write_file
from knowgap.storage.progress import no_progress
from knowgap.storage.record_file import RecordFile

KINDS: dict[str, str] = {
    "one_hop": "one fact of one passage",
    "two_hop": "a fact about something that another passage tells",
}
"""The kinds of questions, and what each asks for."""

_DRAFTS = 3
"""The most drafts for each question that is wanted; a kind that needs more gets fewer questions."""
_STYLE = STYLES["short"]
_LONGEST_ANSWER = 12  # words


class Draft(BaseModel, extra="forbid"):
    """A question that was written, and what the checks found.

    Attributes:
        id: an id made from its kind and passages.
        kind: a key of `KINDS`.
        passages: id, title and text of each gold passage.
        question: empty if none was written.
        answer: short; worded as in the passages.
        aliases: the answer in other words, as found in the passages when the question was checked.
        from_memory: whether the language model knows the answer without a passage.
        dropped: why it is not kept; empty if it is.
    """

    id: str
    kind: str
    passages: list[dict[str, str]]
    question: str = ""
    answer: str = ""
    aliases: list[str] = []
    from_memory: bool = False
    dropped: str = ""

    def to_line(self) -> str:
        """The question in the layout of users' own questions, with the mark `from_memory`: a line of JSON Lines."""
        record: dict[str, Any] = {
            "id": self.id,
            "question": self.question,
            "answer": [self.answer, *self.aliases],
            "type": self.kind,
            "gold_ids": [passage["id"] for passage in self.passages],
            "from_memory": self.from_memory,
        }
        return json.dumps(record, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class WrittenQuestions:
    """The drafts of `write_questions`, kept and dropped.

    Attributes:
        drafts: the drafts in the order in which they were made.
        calls: calls of the language model in this run, those answered from a cache included.
    """

    drafts: list[Draft]
    calls: int

    @property
    def kept(self) -> list[Draft]:
        """The questions that passed all checks."""
        return [draft for draft in self.drafts if not draft.dropped]

    def counts(self) -> dict[str, int]:
        """How many drafts are kept, how many of these are known from memory, and how many were dropped, by reason."""
        known = {"kept": len(self.kept), "kept, but known from memory": sum(draft.from_memory for draft in self.kept)}
        return known | Counter(draft.dropped for draft in self.drafts if draft.dropped)


def write_questions(
    retriever: RetrieverLike,
    output: str | Path,
    *,
    n: int = 60,
    kinds: Sequence[str] = tuple(KINDS),
    run: Run = Run(),
) -> WrittenQuestions:
    """Have a language model write questions with answers and gold passages from an index, and check each.

    A question is kept if it is understood by itself, its passages settle it with the answer that it was written with,
    neither of two passages does alone, the answer is worded as in the passages, and no earlier question asks the same.
    It is marked if the language model knows the answer without a passage. A draft that a check drops is replaced by one
    from other passages, with at most three drafts for each question that is wanted.

    Every draft is written to a file beside the output as soon as it is checked. The same call continues a killed run,
    and a call with a greater `n` continues a finished one; nothing is asked twice. What the output has stays as it is.

    Args:
        retriever: an index, or its folder; the questions name its passages.
        output: the file of questions, in the layout of users' own questions: JSON Lines. They are added at the end.
        n: how many questions are written in all, equally many of each kind, with one more of some of the first.
        kinds: keys of `KINDS`.
        run: the language model that writes and checks, how many drafts are made at a time, the seed of the choice of
            passages, and a callback that hears how many drafts are made.

    Raises:
        UnknownName: there is no such kind.
        UsageError: `n` is below 1; the language model is the embedded reader, which cannot write; the passages of the
            index cannot be listed; the output was made with something else; or no question passed the checks.
        LanguageModelError: the language model does not answer; earlier drafts are kept.

    >>> import knowgap
    >>> index = knowgap.build_index(knowgap.load_dataset("sample"), "words", engine="bm25")
    >>> try:
    ...     knowgap.write_questions(index, "questions.jsonl", run=knowgap.Run(lm=knowgap.make_lm("extractive")))
    ... except knowgap.KnowgapError as error:
    ...     print("needs a language model")
    needs a language model
    """
    if n < 1:
        raise UsageError(f"n = {n}: write at least one question")
    kinds = list(dict.fromkeys(kinds)) or list(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName.among("kind of question", kind, KINDS)
    wanted = {kind: n // len(kinds) + (place < n % len(kinds)) for place, kind in enumerate(kinds)}
    path, lm = Path(output).absolute(), check_teacher(resolve_lm(run.lm), "questions")
    index: Any = as_retriever(retriever)
    if not isinstance(index, Iterable):
        name = getattr(index, "name", type(index).__name__)
        raise UsageError(f"{name} does not list its passages: name the folder of an index")
    made_with = {"language model": [lm_name(lm), lm_settings(lm)], "index": retriever_facts(index)}
    file = path.with_name(f"{path.name}.drafts")
    if path.exists() and not file.exists():
        raise UsageError(f"{path} already exists, but {file.name} beside it does not: name another file")
    corpus = Corpus(index, run.seed)
    with RecordFile(file, Draft, made_with, "draft") as records, track_usage(UsageTracker()) as tracker:
        drafts = _draft_all(lm, corpus, records, wanted, run)
    done = WrittenQuestions(drafts, tracker.usage.asked)
    if not done.kept:
        raise UsageError(f"no question passed the checks: {done.counts()}")
    written = f"{path.read_text(encoding='utf-8').strip()}\n".lstrip() if path.exists() else ""
    write_file(path, "".join([written, *(draft.to_line() for draft in done.kept if draft.id not in written)]))
    return done


def _draft_all(
    lm: dspy.BaseLM, corpus: Corpus, file: RecordFile[Draft], wanted: dict[str, int], run: Run
) -> list[Draft]:
    """Draft in rounds, each of as many questions as are missing; return all drafts.

    The drafts depend only on the index, the seed and the replies, not on threads or interruptions.
    """

    def draft(material: Material) -> Draft:
        if material.id not in file.records:
            file.append(write_draft(lm, material))
        return file.records[material.id].model_copy()

    left = {kind: itertools.islice(corpus.materials(kind), _DRAFTS * number) for kind, number in wanted.items()}
    drafts, asked = list[Draft](), set[str]()
    while True:
        kept = Counter(each.kind for each in drafts if not each.dropped)
        materials = [each for kind, n in wanted.items() for each in itertools.islice(left[kind], n - kept[kind])]
        if not materials:
            return drafts
        total = len(drafts) + len(materials)
        for each in map_ordered(draft, materials, run.num_threads, ahead=8 * run.num_threads):
            question = " ".join(words(each.question))
            if not each.dropped and question in asked:
                each.dropped = "it asks the same as an earlier one"
            asked.add(question)
            drafts.append(each)
            (run.progress or no_progress)(len(drafts), total, "drafts")


def write_draft(lm: dspy.BaseLM, material: Material) -> Draft:
    """Have a language model write a question and check it; the first check that fails drops it.

    Raises:
        LanguageModelError: the language model does not answer, and would not answer other requests either.
    """
    draft = Draft(id=material.id, kind=material.kind, passages=[p.to_dict() for p in material.passages])
    signature, link = (WriteTwoHops, {"link": material.link}) if material.kind == "two_hop" else (WriteOneHop, {})
    try:
        output = _ask(lm, signature, passages=list(material.passages), **link, style=_STYLE)
        draft.question, draft.answer = text_of(output, "question"), text_of(output)
        if not (output.possible and draft.question and draft.answer):
            raise _Dropped("the passages give no question of the kind")
        _check_words(draft, material.passages)
        _check(draft, lm, list(material.passages))
    except _Dropped as reason:
        draft.dropped = str(reason)
    except LanguageModelError as error:
        cause = error.__cause__
        if cause is None or fatal_cause(cause) is not None or is_connection_error(cause):
            raise
        draft.dropped = "the language model refused the request"
    return draft


def _check(draft: Draft, lm: dspy.BaseLM, passages: list[Passage]) -> None:
    """Have the question answered without passages, from all and from each."""

    def is_answer(answer: str) -> bool:
        """Whether it is the draft's answer: in the same words, or as the language model judges."""
        if not answer or normalize_answer(answer) == normalize_answer(draft.answer):
            return bool(answer)
        asked = {"question": draft.question, "prediction": answer, "reference": draft.answer}
        return bool(_ask(lm, JudgeAnswer, **asked).correct)

    read = _ask(lm, ReadQuestion, question=draft.question, style=_STYLE)
    if not read.clear:
        raise _Dropped("the question is not understood by itself")
    draft.from_memory = bool(read.knows) and is_answer(text_of(read))
    settled = _ask(lm, AnswerIfSettled, question=draft.question, passages=passages, style=_STYLE)
    if not settled.settled:
        raise _Dropped("its passages do not settle it")
    found = text_of(settled)
    if not is_answer(found):
        raise _Dropped("another answer is found in its passages")
    if normalize_answer(found) != normalize_answer(draft.answer) and len(found.split()) <= _LONGEST_ANSWER:
        draft.aliases = [found]
    for passage in passages if len(passages) > 1 else ():
        alone = _ask(lm, AnswerIfSettled, question=draft.question, passages=[passage], style=_STYLE)
        if alone.settled and is_answer(text_of(alone)):
            raise _Dropped("one of its two passages settles it")


def _ask(lm: dspy.BaseLM, signature: type[dspy.Signature], **inputs: Any) -> dspy.Prediction:
    output = ask_teacher(dspy.Predict(signature), lm, **inputs)
    if output is None:
        raise _Dropped("a reply of the language model could not be read")
    return output


class _Dropped(Exception):
    """Why a draft is dropped."""


def _check_words(draft: Draft, passages: Sequence[Passage]) -> None:
    """Look for what is wrong with a question and its answer without a language model."""
    answer, told = (normalize_answer(" ".join(words(text))) for text in (draft.answer, draft.question))
    read = {word for passage in passages for word in words(str(passage))}
    for reason, applies in (
        ("the answer has more than 12 words", len(words(draft.answer)) > _LONGEST_ANSWER),
        ("the answer stands in the question", f" {answer} " in f" {told} "),
        ("the answer is not worded as in the passages", not answer or not {*words(draft.answer)} <= read),
    ):
        if applies:
            raise _Dropped(reason)
