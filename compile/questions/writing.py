"""Write questions from an index with a language model: draft, check, and replace what the checks drop."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knowgap.compiling.evaluation.estimate import Estimate
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer
from knowgap.compiling.evaluation.provenance import lm_name, lm_settings, retriever_facts
from knowgap.compiling.evaluation.runner import resolve_lm
from knowgap.compiling.evaluation.threads import map_ordered
from knowgap.compiling.questions.author import Author
from knowgap.compiling.questions.material import Corpus, Material
from knowgap.compiling.questions.records import DROPPED, KINDS, Draft
from knowgap.compiling.run import Run
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.metering import Prices, UsageTracker, track_usage
from knowgap.lms.providers import EXTRACTIVE, unreadable_replies
from knowgap.retrieval.index.engines import as_retriever
from knowgap.retrieval.passage import RetrieverLike
from knowgap.storage.files import write_file
from knowgap.storage.record_file import RecordFile

CANNOT_WRITE = "the embedded reader writes no questions"
_DRAFTS = 3
"""The most drafts for each question that is wanted; a kind that needs more gets fewer questions."""
_ASKED_AGAIN = ("lost", "unreadable")
"""Drafts that are not kept in the file, so that the next run asks for them again."""
_HOPELESS = 4
"""How many drafts a round must have, after earlier rounds, for the run to end if all of them fail."""
_SIMILAR = 0.85
"""Cosine of two sentence vectors.

Of 864 questions of HotpotQA, 2WikiMultihopQA, NQ and the sample, no two with the same answer come so near; of ten pairs
of wordings of one question, nine do. Without the answer, similarity says little.
"""


@dataclass(frozen=True)
class WrittenQuestions:
    """The drafts of `write_questions`, kept and dropped.

    Attributes:
        drafts: the drafts in the order in which they were made.
        wanted: how many questions of each kind were to be written.
        calls: calls of the language model in this run, those answered from a cache included.
    """

    drafts: list[Draft]
    wanted: dict[str, int]
    calls: int

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
        for reason, words in DROPPED.items():
            fates[f"dropped: {words}"] = Counter(draft.kind for draft in self.drafts if draft.dropped == reason)
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
            passages, and a callback that hears how many questions are kept.

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
    wanted, path, (author, corpus) = _shares(n, kinds), Path(output), _opened(retriever, run)
    made_with = {
        "language model": [lm_name(author.lm), lm_settings(author.lm)],
        "index": retriever_facts(corpus.retriever),
    }
    drafts = path.with_name(f"{path.name}.drafts")
    if path.exists() and not drafts.exists():
        raise UsageError(f"{path} already exists, but {drafts.name} beside it does not: name another file")
    with RecordFile(drafts, Draft, made_with, "draft") as file, track_usage(UsageTracker()) as tracker:
        rounds = _Rounds(corpus, author, file, wanted, tracker)
        done = WrittenQuestions(rounds.write(run), wanted, tracker.usage.asked)
    if not done.kept:
        dropped = Counter(draft.dropped for draft in done.drafts).most_common()
        reasons = "; ".join(f"{count} × {DROPPED[reason]}" for reason, count in dropped)
        raise UsageError(f"no question passed the checks: {reasons}")
    write_file(path, "".join(draft.to_line() for draft in done.kept))
    return done


def estimate_questions(
    retriever: RetrieverLike,
    *,
    n: int = 60,
    kinds: Sequence[str] = tuple(KINDS),
    run: Run = Run(),
    prices: Prices | None = None,
) -> dict[str, Estimate]:
    """Estimate what `write_questions` costs, by kind, if the checks keep every draft; else up to three times as much.

    One question of each kind is drafted. `prices` are US dollars per million prompt and completion tokens, instead of
    DSPy's own.
    """
    author, corpus = _opened(retriever, run)
    estimates: dict[str, Estimate] = {}
    for kind, number in _shares(n, kinds).items():
        with track_usage(UsageTracker()) as tracker:
            asked = sum(author.draft(material) is not None for material in itertools.islice(corpus.materials(kind), 1))
        if asked and number:
            estimates[kind] = Estimate.of_usage(tracker.usage, asked, number, author.lm, prices)
    return estimates


def _opened(retriever: RetrieverLike, run: Run) -> tuple[Author, Corpus]:
    """The author and the passages that it writes about; the errors are those of `write_questions`."""
    index, lm = as_retriever(retriever), resolve_lm(run.lm)
    if lm_name(lm) == EXTRACTIVE:
        raise UsageError(f"{CANNOT_WRITE}: pass another language model, lm=make_lm(…)")
    passages: Any = index
    if not isinstance(passages, Iterable):
        name = getattr(index, "name", type(index).__name__)
        raise UsageError(f"{name} does not list its passages: name the folder of an index")
    return Author(lm), Corpus(index, passages, run.seed)


def _shares(n: int, kinds: Sequence[str]) -> dict[str, int]:
    """How many questions of each kind are wanted: equal shares, with one more for some of the first kinds."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName.among("kind of question", kind, KINDS)
    every = list(dict.fromkeys(kinds))
    if n < 1 or not every:
        raise UsageError(f"n = {n}, with {len(every)} kinds of questions: ask for at least one question of one kind")
    return {kind: n // len(every) + (place < n % len(every)) for place, kind in enumerate(every)}


class RepetitionFilter:
    """Remembers questions, and tells whether another one asks the same.

    A question does if it has the same words as an earlier one, or the same answer and a similar MiniLM vector.
    """

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._vectors: dict[str, list[np.ndarray]] = {}

    def repeats(self, question: str, answer: str) -> bool:
        """Whether a question repeats an earlier one; if it does not, it is remembered."""
        from knowgap.retrieval.minilm import sentence_encoder

        text, key = " ".join(question.casefold().split()), normalize_answer(answer)
        [vector] = sentence_encoder().encode([question])
        near = any(float(vector @ other) >= _SIMILAR for other in self._vectors.get(key, ()))
        if near or text in self._texts:
            return True
        self._texts.add(text)
        self._vectors.setdefault(key, []).append(vector)
        return False


class _Rounds:
    """Writes as many questions of each kind as are wanted, in rounds, each of which drafts as many as are missing.

    The drafts depend only on the index, the seed and the replies, not on threads or interruptions.
    """

    def __init__(
        self, corpus: Corpus, author: Author, file: RecordFile[Draft], wanted: dict[str, int], tracker: UsageTracker
    ) -> None:
        self._author, self._file, self._wanted, self._tracker = author, file, wanted, tracker
        self._left: dict[str, Iterator[Material]] = {
            kind: itertools.islice(corpus.materials(kind), _DRAFTS * number) for kind, number in wanted.items()
        }
        self._earlier = RepetitionFilter()
        self._drafts: list[Draft] = []

    def write(self, run: Run) -> list[Draft]:
        """Draft in rounds until nothing is missing, or no passages are left; return all drafts."""
        while materials := {material.id: material for material in self._next_round()}:
            unsaved: dict[str, Draft] = {}
            missing = self._file.missing(list(materials))
            make = functools.partial(self._draft, materials, unsaved)
            made = map_ordered(make, missing, run.num_threads, ahead=8 * run.num_threads)
            total = len({*self._file.records, *materials})
            self._file.keep(made, total, run.progress, functools.partial(self._tell, list(materials)))
            for id in materials:
                draft = unsaved[id] if id in unsaved else self._file.records[id].model_copy()
                if not draft.dropped and self._earlier.repeats(draft.question, draft.answer):
                    draft.dropped = "repeated"
                self._drafts.append(draft)
            self._stop_if_hopeless(list(unsaved.values()), len(materials))
        return self._drafts

    def _draft(self, materials: dict[str, Material], unsaved: dict[str, Draft], id: str) -> Draft | None:
        """Make a draft for the file; one that the next run asks for again goes into `unsaved` instead."""
        draft = self._author.draft(materials[id])
        if draft.dropped not in _ASKED_AGAIN:
            return draft
        unsaved[id] = draft
        return None

    def _stop_if_hopeless(self, failed: list[Draft], asked: int) -> None:
        """End a run in which a whole round has failed, unless it is a short round after others."""
        if len(failed) < asked or (asked < _HOPELESS and len(self._drafts) > asked):
            return
        if self._author.last_error is not None:
            raise self._author.last_error
        raise unreadable_replies(self._author.lm, self._tracker.usage.asked, 0)

    def _kept(self) -> Counter[str]:
        return Counter(draft.kind for draft in self._drafts if not draft.dropped)

    def _next_round(self) -> Iterator[Material]:
        kept = self._kept()
        for kind, number in self._wanted.items():
            yield from itertools.islice(self._left[kind], number - kept[kind])

    def _tell(self, ids: list[str]) -> str:
        passed = sum(id in self._file.records and not self._file.records[id].dropped for id in ids)
        return f"{self._kept().total() + passed} of {sum(self._wanted.values())} questions"
