"""What the span head is trained on: questions with a passage each, and where the passage answers, if it does.

Sources: squadshifts (Miller et al. 2020; SQuAD's layout), the sub-questions of 2WikiMultihopQA's training questions
(Ho et al. 2020), and HotpotQA's training questions (Yang et al. 2018), each with its gold paragraphs and with others;
and what `reading_made` makes of the paragraphs of the latter two.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgap.compiling.data.records import read_records
from knowgap.errors import DataError
from knowgap.retrieval.words import split_sentences

MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DOCUMENTS = 4_000  # made up, at most; one for 20 other examples
_UNANSWERABLE = {"squad": 0.7, "context": 2}  # per question: a probability, and a number of other paragraphs


@dataclass(frozen=True, slots=True)
class ReadingExample:
    """A question and a passage.

    Attributes:
        question: in English.
        title: of the passage; may be blank.
        text: of the passage.
        answers: first character and the one after the last of each annotated answer; empty if it does not answer.
    """

    question: str
    title: str
    text: str
    answers: tuple[tuple[int, int], ...]


def read_examples(folder: str | Path, seed: int = 0) -> list[ReadingExample]:
    """Read the training files of a folder, some of them on a passage without the answer.

    Args:
        folder: has `squadshifts_*.json`, `2wiki_train*.json` and `hotpot_train*.json`, any of them, at any depth.
        seed: of the choice of passages that do not answer.

    Raises:
        DataError: none of these files is there, or one holds no JSON records.
    """
    from bundled_models.reading_made import attribute_examples, document_examples

    rng = random.Random(seed)
    examples: list[ReadingExample] = []
    paragraphs: dict[tuple[str, str], None] = {}
    for path in sorted(Path(folder).rglob("squadshifts_*.json")):
        answered = list(squad_examples(path))
        examples += [*answered, *_retrieved_elsewhere(answered, rng)]
    for read, pattern in ((_sub_questions, "2wiki_train*.json"), (_multi_hop, "hotpot_train*.json")):
        for record in records(folder, pattern):
            examples += read(record, rng)
            paragraphs |= dict.fromkeys(paragraphs_of(record)[0].items())
    if not examples:
        raise DataError(f"{folder}: no training file of squadshifts, 2WikiMultihopQA or HotpotQA is there")
    fillers = [example.text.partition(". ")[0] + "." for example in examples[:: max(1, len(examples) // 900)]]
    examples += attribute_examples(paragraphs, rng)
    return [*examples, *document_examples(min(_DOCUMENTS, len(examples) // 20), fillers, rng)]


def records(folder: str | Path, pattern: str) -> Iterator[dict[str, Any]]:
    """The records of the files in a folder, at any depth, whose names match a pattern."""
    for path in sorted(Path(folder).rglob(pattern)):
        yield from (record.data for record in read_records(path))


def squad_examples(path: Path) -> Iterator[ReadingExample]:
    """The questions of a file in SQuAD's layout."""
    for record in read_records(path, "data"):
        title = record.data.get("title", "")
        named = "" if "/" in title or len(title) > 80 else title.replace("_", " ")  # some titles are addresses
        for paragraph in record.data["paragraphs"]:
            text = paragraph["context"]
            for qa in paragraph["qas"]:
                places = [(a["answer_start"], a["answer_start"] + len(a["text"])) for a in qa["answers"]]
                kept = tuple(p for p, a in zip(places, qa["answers"], strict=True) if text[slice(*p)] == a["text"])
                if kept:
                    yield ReadingExample(qa["question"].strip(), named, text, kept)


def _retrieved_elsewhere(examples: Sequence[ReadingExample], rng: random.Random) -> Iterator[ReadingExample]:
    """For some questions, another passage that shares words with it and does not contain its answers."""
    import bm25s

    passages = list(dict.fromkeys((e.title, e.text) for e in examples))
    index = bm25s.BM25()
    index.index(bm25s.tokenize([f"{t} {x}" for t, x in passages], show_progress=False), show_progress=False)
    chosen = [e for e in examples if rng.random() < _UNANSWERABLE["squad"]]
    queries = bm25s.tokenize([f"{e.title} {e.question}" for e in chosen], show_progress=False)
    found, _ = index.retrieve(queries, k=min(12, len(passages)), show_progress=False)
    for example, numbers in zip(chosen, found, strict=True):
        strings = [example.text[slice(*place)].casefold() for place in example.answers]
        others = [
            passages[n]
            for n in numbers
            if passages[n][1] != example.text and not any(s in passages[n][1].casefold() for s in strings)
        ]
        if others:
            title, text = rng.choice(others)
            yield ReadingExample(example.question, title, text, ())
        if left := without(example.text, strings):
            yield ReadingExample(example.question, example.title, left, ())


def without(text: str, strings: Iterable[str]) -> str:
    """The text without the sentences that have one of these strings; empty if all or none would go."""
    sentences = split_sentences(text)
    left = [s for s in sentences if not any(string.casefold() in s.casefold() for string in strings)]
    return " ".join(left) if len(left) < len(sentences) else ""


def _sub_questions(record: dict[str, Any], rng: random.Random) -> Iterator[ReadingExample]:
    """2WikiMultihopQA's sub-questions, each on the paragraph that has its answer and on others of its question."""
    paragraphs, gold = paragraphs_of(record)
    for pair in record.get("qa_pairs", []):
        question, stated = pair["question"], pair["answer"].casefold()
        for subject, _, value in record["evidences"]:
            forms = _date_forms(value)
            if subject.casefold() in question.casefold() and any(form.casefold() in stated for form in forms):
                titles = [title for title in gold if _plain(title) == _plain(subject)]
                found = [(title, place) for title in titles if (place := _find(forms, paragraphs[title]))]
                yield from _with_others(question, found[:1], paragraphs, forms, rng)
                break


def _multi_hop(record: dict[str, Any], rng: random.Random) -> Iterator[ReadingExample]:
    """A HotpotQA question on the gold paragraph that has its answer, and on others, the other gold one among them."""
    paragraphs, gold = paragraphs_of(record)
    answers = [record["answer"]]
    found = [(title, place) for title in gold if (place := _find(answers, paragraphs[title]))]
    if len(found) == 1 and answers[0].casefold() not in ("yes", "no"):
        yield from _with_others(record["question"], found, paragraphs, answers, rng, gold)


def _with_others(
    question: str,
    found: Iterable[tuple[str, tuple[int, int]]],
    paragraphs: dict[str, str],
    answers: Sequence[str],
    rng: random.Random,
    first: Iterable[str] = (),
) -> Iterator[ReadingExample]:
    """An example on each paragraph that answers, and two on such as do not, those in `first` before the rest."""
    for title, place in found:
        yield ReadingExample(question, title, paragraphs[title], (place,))
        others = [t for t in paragraphs if not any(a.casefold() in paragraphs[t].casefold() for a in answers)]
        rng.shuffle(others)
        others.sort(key=lambda t: t not in set(first))
        for other in others[: _UNANSWERABLE["context"]]:
            yield ReadingExample(question, other, paragraphs[other], ())


def paragraphs_of(record: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The paragraphs of a question of several steps by their titles, and the titles of the gold ones."""
    paragraphs = {title: " ".join(s.strip() for s in sentences) for title, sentences in record["context"]}
    return paragraphs, list(dict.fromkeys(title for title, _ in record["supporting_facts"] if title in paragraphs))


def _find(forms: Sequence[str], text: str) -> tuple[int, int] | None:
    """Where one of several forms first stands in a text as whole words."""
    for form in forms:
        if match := re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE):
            return match.span()
    return None


def _date_forms(value: str) -> list[str]:
    """A value as it stands, and a date with its parts in the other usual order."""
    date = re.fullmatch(rf"(?:(\d{{1,2}}) ({MONTH})|({MONTH}) (\d{{1,2}})),? (\d{{3,4}})", value)
    if date is None:
        return [value]
    day, month, other_month, other_day, year = date.groups()
    return [value, f"{month} {day}, {year}" if day else f"{other_day} {other_month} {year}"]


def _plain(title: str) -> str:
    return re.sub(r"\s*\([^()]*\)$", "", title).casefold()
