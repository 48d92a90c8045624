"""What the span head is trained on: questions with a passage each, and where the passage answers, if it does.

Sources: squadshifts (Miller et al. 2020; SQuAD's layout), the sub-questions of 2WikiMultihopQA's training questions
(Ho et al. 2020), and HotpotQA's training questions (Yang et al. 2018), each with its gold paragraphs and with others;
and what `reading_made` makes of the paragraphs of the latter two.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgap.errors import DataError
from knowgap.retrieval.words import split_sentences

_MONTHS = re.compile("January|February|March|April|May|June|July|August|September|October|November|December")
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
        folder: has `squadshifts_*.json`, `2wiki_train*.json`, `hotpot_train*.json` and `hotpot_questions.jsonl` with
            `hotpot_corpus.jsonl`, any of them, at any depth.
        seed: of the choice of passages that do not answer.

    Raises:
        DataError: none of these files is there, or one is not in its layout.
    """
    from bundled_models.reading_made import attribute_examples, document_examples

    rng = random.Random(seed)
    examples: list[ReadingExample] = []
    paragraphs: dict[tuple[str, str], None] = {}
    with in_layout(folder):
        for path in sorted(Path(folder).rglob("squadshifts_*.json")):
            answered = list(squad_examples(path))
            examples += [*answered, *_retrieved_elsewhere(answered, rng)]
        for path in sorted(Path(folder).rglob("2wiki_train*.json")):
            for record in json.loads(path.read_text("utf-8")):
                examples += _sub_questions(record, rng)
                paragraphs |= dict.fromkeys(paragraphs_of(record)[0].items())
        for record in hotpot_records(folder):
            examples += _multi_hop(record, rng)
            paragraphs |= dict.fromkeys(paragraphs_of(record)[0].items())
    if not examples:
        raise DataError(f"{folder}: no training file of squadshifts, 2WikiMultihopQA or HotpotQA is there")
    fillers = [example.text.partition(". ")[0] + "." for example in examples[:: max(1, len(examples) // 900)]]
    examples += attribute_examples(paragraphs, rng)
    return [*examples, *document_examples(min(_DOCUMENTS, len(examples) // 20), fillers, rng)]


@contextmanager
def in_layout(folder: str | Path) -> Iterator[None]:
    """Report records that are not in their layout.

    Raises:
        DataError: one is not.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"{folder}: a training file is not in its layout ({error!r})") from error


def squad_examples(path: str | Path) -> Iterator[ReadingExample]:
    """The questions of a file in SQuAD's layout."""
    for article in json.loads(Path(path).read_text("utf-8"))["data"]:
        title = article.get("title", "")
        named = "" if "/" in title or len(title) > 80 else title.replace("_", " ")  # some titles are addresses
        for paragraph in article["paragraphs"]:
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
        stated = pair["answer"].casefold()
        for subject, _, value in record["evidences"]:
            forms = _date_forms(value)
            if subject.casefold() not in pair["question"].casefold() or not any(f.casefold() in stated for f in forms):
                continue
            titles = [title for title in gold if _plain(title) == _plain(subject)]
            places = [(t, place) for t in titles if (place := _find(forms, paragraphs[t]))]
            if places:
                title, place = places[0]
                yield from _with_others(pair["question"], title, place, paragraphs, forms, rng)
            break


def _multi_hop(record: dict[str, Any], rng: random.Random) -> Iterator[ReadingExample]:
    """A HotpotQA question on the gold paragraph that has its answer, and on others, the other gold one among them."""
    if record["answer"].casefold() in ("yes", "no"):
        return
    paragraphs, gold = paragraphs_of(record)
    places = [(title, place) for title in gold if (place := _find([record["answer"]], paragraphs[title]))]
    if len(places) == 1:
        title, place = places[0]
        yield from _with_others(record["question"], title, place, paragraphs, [record["answer"]], rng, gold)


def _with_others(
    question: str,
    title: str,
    place: tuple[int, int],
    paragraphs: dict[str, str],
    answers: Sequence[str],
    rng: random.Random,
    first: Iterable[str] = (),
) -> Iterator[ReadingExample]:
    """The example, and two on paragraphs without the answer, those in `first` before the rest."""
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


def hotpot_records(folder: str | Path) -> Iterator[dict[str, Any]]:
    """Records of HotpotQA in the official layout, and of `hotpot_questions.jsonl` brought into it."""
    for path in sorted(Path(folder).rglob("hotpot_train*.json")):
        yield from json.loads(path.read_text("utf-8"))
    for path in sorted(Path(folder).rglob("hotpot_questions.jsonl")):
        corpus = path.with_name("hotpot_corpus.jsonl").read_text("utf-8").splitlines()
        passages = {p["doc_id"]: p for p in map(json.loads, corpus)}
        others = sorted(passages)
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            drawn = random.Random(record["id"]).sample(others, 4)
            chosen = [passages[i] for i in dict.fromkeys([*record["gold_doc_ids"], *drawn])]
            yield {
                "_id": record["id"],
                "question": record["question"],
                "answer": record["answer"],
                "supporting_facts": [[title, 0] for title in record["supporting_facts"]["titles"]],
                "context": [[p["title"], [p["text"]]] for p in chosen],
            }


def _find(forms: Sequence[str], text: str) -> tuple[int, int] | None:
    """Where one of several forms first stands in a text as whole words."""
    for form in forms:
        if match := re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE):
            return match.span()
    return None


def _date_forms(value: str) -> list[str]:
    """A value as it stands, and a date with its parts in the other usual order."""
    forms = [value]
    if (match := re.fullmatch(r"(\d{1,2}) (\w+),? (\d{3,4})", value)) and _MONTHS.fullmatch(match[2]):
        forms.append(f"{match[2]} {match[1]}, {match[3]}")
    elif (match := re.fullmatch(r"(\w+) (\d{1,2}),? (\d{3,4})", value)) and _MONTHS.fullmatch(match[1]):
        forms.append(f"{match[2]} {match[1]} {match[3]}")
    return forms


def _plain(title: str) -> str:
    return re.sub(r"\s*\([^()]*\)$", "", title).casefold()
