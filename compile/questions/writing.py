"""Write questions from an index with a language model: draft, check, and replace what the checks drop."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.evaluation.provenance import lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import resolve_lm
from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.questions.author import KINDS, Draft, write_draft
from knowgap.compiling.questions.material import Corpus, Material
from knowgap.compiling.run import Run
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.metering import UsageTracker, track_usage
from knowgap.lms.providers import EXTRACTIVE
from knowgap.retrieval.index.engines import as_retriever
from knowgap.retrieval.passage import RetrieverLike
from knowgap.retrieval.words import words
from knowgap.storage.files import write_file
from knowgap.storage.progress import no_progress
from knowgap.storage.record_file import RecordFile

_DRAFTS = 3
"""The most drafts for each question that is wanted; a kind that needs more gets fewer questions."""


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
    and a call with a greater `n` continues a finished one; nothing is asked twice.

    Args:
        retriever: an index, or its folder; the questions name its passages.
        output: the file of questions, in the layout of users' own questions: JSON Lines. Written at the end.
        n: how many questions are written in all, equally many of each kind, with one more of some of the first.
        kinds: keys of `KINDS`.
        run: the language model that writes and checks, how many drafts are made at a time, the seed of the choice of
            passages, and a callback that hears how many drafts are made.

    Raises:
        UnknownName: there is no such kind.
        UsageError: the language model is the embedded reader, which cannot write; the passages of the index cannot be
            listed; the output was made with something else; or no question passed the checks.
        LanguageModelError: the language model does not answer; earlier drafts are kept.

    >>> import knowgap
    >>> index = knowgap.build_index(knowgap.load_dataset("sample"), "words", engine="bm25")
    >>> try:
    ...     knowgap.write_questions(index, "questions.jsonl", run=knowgap.Run(lm=knowgap.make_lm("extractive")))
    ... except knowgap.KnowgapError as error:
    ...     print("needs a language model")
    needs a language model
    """
    kinds = list(dict.fromkeys(kinds)) or list(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName.among("kind of question", kind, KINDS)
    wanted = {kind: n // len(kinds) + (place < n % len(kinds)) for place, kind in enumerate(kinds)}
    path, lm = Path(output), resolve_lm(run.lm)
    if lm_name(lm) == EXTRACTIVE:
        raise UsageError("the embedded reader writes no questions: name a language model, as in --lm openai/NAME")
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
    write_file(path, "".join(draft.to_line() for draft in done.kept))
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
