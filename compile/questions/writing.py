"""Write questions from an index with a language model: draft, check, and replace what the checks drop."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knowgap.compiling.evaluation.provenance import lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import resolve_lm
from knowgap.compiling.questions.author import Author
from knowgap.compiling.questions.material import Corpus, Material
from knowgap.compiling.questions.records import DROPPED, KINDS, Draft
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import write_records
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.providers import EXTRACTIVE, unreadable_replies
from knowgap.retrieval.index.engines import as_retriever
from knowgap.retrieval.passage import RetrieverLike
from knowgap.retrieval.words import words
from knowgap.storage.files import write_file
from knowgap.storage.progress import Progress

CANNOT_WRITE = "the embedded reader writes no questions"
_DRAFTS = 3
"""The most drafts for each question that is wanted; a kind that needs more gets fewer questions."""
_ASKED_AGAIN = ("lost", "unreadable")
"""Drafts that are not kept in the file, so that the next run asks for them again."""
_HOPELESS = 4
"""How many drafts a round must have, after earlier rounds, for the run to end if all of them fail."""


@dataclass(frozen=True)
class WrittenQuestions:
    """The drafts of `write_questions`, kept and dropped.

    Attributes:
        drafts: the drafts in the order in which they were made.
        calls: calls of the language model in this run, those answered from a cache included.
        wanted: how many questions of each kind were to be written.
    """

    drafts: list[Draft]
    calls: int
    wanted: dict[str, int]

    @property
    def kept(self) -> list[Draft]:
        """The questions that passed all checks."""
        return [draft for draft in self.drafts if not draft.dropped]

    def counts(self) -> dict[str, dict[str, int]]:
        """How many there are of each kind: wanted, drafted, kept, known from memory, and dropped by reason."""
        fates = {
            "wanted": Counter(self.wanted),
            "drafted": Counter(draft.kind for draft in self.drafts),
            "kept": Counter(draft.kind for draft in self.kept),
            "of these, known from memory": Counter(draft.kind for draft in self.kept if draft.from_memory),
        }
        for reason, why in DROPPED.items():
            fates[f"dropped: {why}"] = Counter(draft.kind for draft in self.drafts if draft.dropped == reason)
        return {fate: {kind: count[kind] for kind in self.wanted} for fate, count in fates.items() if count.total()}


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
        n: how many questions are written in all, equally many of each kind.
        kinds: keys of `KINDS`.
        run: the language model that writes and checks, how many drafts are made at a time, the seed of the choice of
            passages, and a callback that hears how many drafts are made.

    Raises:
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
    wanted, path, lm = _shares(n, kinds), Path(output), resolve_lm(run.lm)
    if lm_name(lm) == EXTRACTIVE:
        raise UsageError(f"{CANNOT_WRITE}: pass another language model, lm=make_lm(…)")
    index: Any = as_retriever(retriever)
    if not isinstance(index, Iterable):
        name = getattr(index, "name", type(index).__name__)
        raise UsageError(f"{name} does not list its passages: name the folder of an index")
    author, corpus = Author(lm), Corpus(index, run.seed)
    made_with = {"language model": [lm_name(lm), lm_settings(lm)], "index": retriever_facts(index)}
    drafts = path.with_name(f"{path.name}.drafts")
    if path.exists() and not drafts.exists():
        raise UsageError(f"{path} already exists, but {drafts.name} beside it does not: name another file")
    done = WrittenQuestions(*_draft_all(author, corpus, drafts, made_with, wanted, run), wanted)
    if not done.kept:
        dropped = Counter(draft.dropped for draft in done.drafts).most_common()
        reasons = "; ".join(f"{count} × {DROPPED[reason]}" for reason, count in dropped)
        raise UsageError(f"no question passed the checks: {reasons}")
    write_file(path, "".join(draft.to_line() for draft in done.kept))
    return done


def _shares(n: int, kinds: Sequence[str]) -> dict[str, int]:
    """How many questions of each kind are wanted: equal shares, with one more for some of the first kinds."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName.among("kind of question", kind, KINDS)
    every = list(dict.fromkeys(kinds))
    if n < 1 or not every:
        raise UsageError(f"n = {n}, with {len(every)} kinds of questions: ask for at least one question of one kind")
    return {kind: n // len(every) + (place < n % len(every)) for place, kind in enumerate(every)}


def _draft_all(
    author: Author, corpus: Corpus, file: Path, made_with: dict[str, Any], wanted: dict[str, int], run: Run
) -> tuple[list[Draft], int]:
    """Draft in rounds, each of as many questions as are missing; return all drafts, and the calls that were made.

    The drafts depend only on the index, the seed and the replies, not on threads or interruptions.
    """
    left = {kind: itertools.islice(corpus.materials(kind), _DRAFTS * number) for kind, number in wanted.items()}
    drafts, calls, earlier = list[Draft](), 0, set[str]()
    while True:
        kept = Counter(draft.kind for draft in drafts if not draft.dropped)
        chosen = (itertools.islice(left[kind], number - kept[kind]) for kind, number in wanted.items())
        materials = {material.id: material for material in itertools.chain.from_iterable(chosen)}
        if not materials:
            return drafts, calls
        unsaved: dict[str, Draft] = {}
        make = functools.partial(_draft, author, materials, unsaved)
        total = len(drafts) + len(materials)
        told = replace(run, progress=run.progress and _of(run.progress, total))
        written = write_records([*materials], make, file, Draft, made_with, "draft", told)
        calls += written.calls
        by_id = unsaved | {draft.id: draft.model_copy() for draft in written.records}
        for draft in (by_id[id] for id in materials):
            asked = " ".join(words(draft.question))
            if not draft.dropped and asked in earlier:
                draft.dropped = "repeated"
            earlier |= {asked}
            drafts.append(draft)
        # A round in which every draft has failed ends the run, unless it is a short one after others.
        if len(unsaved) == len(materials) and (len(unsaved) >= _HOPELESS or len(drafts) == len(unsaved)):
            raise author.last_error or unreadable_replies(author.lm, calls, 0)


def _of(progress: Progress, total: int) -> Progress:
    """Report the drafts of one round as part of the drafts of all rounds so far."""
    return lambda done, _, what: progress(min(done, total), total, what)


def _draft(author: Author, materials: dict[str, Material], unsaved: dict[str, Draft], id: str) -> Draft | None:
    """Make a draft for the file; one that the next run asks for again goes into `unsaved` instead."""
    draft = author.draft(materials[id])
    if draft.dropped not in _ASKED_AGAIN:
        return draft
    unsaved[id] = draft
    return None
