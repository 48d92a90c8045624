"""What the entailment model is trained on: statements that a passage supports, and edited ones that it does not.

True statements: the worded sub-answers of 2WikiMultihopQA's training questions (Ho et al. 2020) with their gold
paragraphs; questions of squadshifts (Miller et al. 2020) joined with their answers; sentences of HotpotQA's training
paragraphs (Yang et al. 2018) that name what they are about. False ones: the same with another name, number or answer,
with two names swapped or a negation, or beside another passage, or one whose names have another first word.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bundled_models.reading_examples import (
    ReadingExample,
    hotpot_records,
    in_layout,
    paragraphs_of,
    squad_examples,
)
from knowgap.errors import DataError
from knowgap.retrieval.entailment.features import name_runs, negated
from knowgap.retrieval.lexical import FUNCTION_WORDS
from knowgap.retrieval.minilm import sentence_encoder
from knowgap.retrieval.sentences import split_sentences

T = TypeVar("T")
_OF_A_SET = 200  # true statements, about
_SURNAME_RARITY = 0.66  # a rarer last word of a name is no common noun (river, school)
KINDS = ("said", "surname", "namesake", "name", "number", "roles", "negation", "answer", "passage")
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|has|have|had|can|could|will|would|does|do|did|should|may|might)\b")
_VERB = rf"(?:{_AUXILIARY.pattern})"
_MUTUAL = re.compile(r"\b(?:and|or|with|married|spouse|wife|husband|sibling|brother|sister|same|both)\b", re.IGNORECASE)
_OPENING = re.compile(
    r"^(?:he|she|it|they|his|her|its|their|the (?:film|song|album|book|band|novel|series|game))\b", re.I
)


class Statement(NamedTuple):
    """A statement beside a premise.

    Attributes:
        premise: `title: text` of a passage.
        text: the statement.
        true: whether the premise says so.
        kind: one of `KINDS`; what was done to it.
        source: data set.
    """

    premise: str
    text: str
    true: bool
    kind: str
    source: str


def read_statements(folder: str | Path, seed: int) -> list[Statement]:
    """Make statements from the training files of a folder (those of `read_examples`).

    Args:
        folder: of the data.
        seed: of the choice and the edits.

    Raises:
        DataError: none of these files is there, or one is not in its layout.
    """
    rng = random.Random(seed)
    made: list[Statement] = []
    with in_layout(folder):
        for path in sorted(Path(folder).rglob("2wiki_train*.json")):
            records = json.loads(path.read_text("utf-8"))
            made += _some(_sub_answers(record, rng) for record in _shuffled(records, rng))
        for path in sorted(Path(folder).rglob("squadshifts_*.json")):
            made += _some(answered(list(squad_examples(path)), rng))
        records = list(hotpot_records(folder))
        made += _some(hotpot_statements(record, rng) for record in _shuffled(records, rng))
    if not made:
        raise DataError(f"{folder}: no training file of squadshifts, 2WikiMultihopQA or HotpotQA is there")
    return made


def _shuffled(items: list[T], rng: random.Random) -> list[T]:
    return rng.sample(items, len(items))


def _some(groups: Iterable[Iterable[Statement]]) -> Iterator[Statement]:
    taken = 0
    for group in groups:
        made = list(group)
        yield from made
        taken += sum(s.true for s in made)
        if taken >= _OF_A_SET:
            return


def edits(premise: str, text: str, names: Iterable[str], source: str, rng: random.Random) -> Iterator[Statement]:
    """A true statement, and what one edit of each kind makes of it.

    Args:
        premise: that says it.
        text: the statement.
        names: other names, any of which may take the place of one.
        source: of the statements made.
        rng: chooses.
    """

    def make(changed: str, true: bool, kind: str, beside: str = premise) -> Statement:
        return Statement(beside, changed, true, kind, source)

    yield make(text, True, "said")
    runs = [name for name, _ in name_runs(text)]
    low = text.lower()
    whole = [run for run in runs if 2 <= len(run.split()) <= 3 and run in premise and not any(map(str.isdigit, run))]
    people = [run for run in whole if sentence_encoder().rarity([run.split()[-1]])[0] >= _SURNAME_RARITY]
    if people:
        person = rng.choice(people)
        yield make(text, True, "surname", premise.replace(person, person.split()[-1]))
    firsts = [name.split()[0] for name in names if len(name.split()) == 2 and name.split()[0] not in premise]
    if whole and firsts:
        first = rng.choice(whole).rsplit(None, 1)[0]
        beside = re.sub(rf"\b{re.escape(first)}\b", rng.choice(firsts), premise)
        yield make(text, False, "namesake", beside)
    others = [name for name in names if name.lower() not in low and not any(w in low for w in name.lower().split())]
    if runs and others:
        yield make(text.replace(rng.choice(runs), rng.choice(others), 1), False, "name")
    if figures := list(re.finditer(r"\d+", text)):
        figure = rng.choice(figures)
        other = _other_number(figure.group(), rng)
        if other not in premise:
            yield make(text[: figure.start()] + other + text[figure.end() :], False, "number")
    if len(set(runs)) >= 2 and not _MUTUAL.search(text):
        first, second = rng.sample(list(dict.fromkeys(runs)), 2)
        swapped = text.replace(first, "\0", 1).replace(second, first, 1).replace("\0", second, 1)
        if first not in second and second not in first and swapped != text:
            yield make(swapped, False, "roles")
    if (denied := denial(text, rng)) is not None:
        yield make(denied, False, "negation")


def denial(text: str, rng: random.Random) -> str | None:
    """A sentence with a negation after its first auxiliary verb; None if it has no such verb, or a negation already."""
    if (auxiliary := _AUXILIARY.search(text)) is None or negated(text):
        return None
    return f"{text[: auxiliary.end()]} {rng.choice(['not', 'never'])}{text[auxiliary.end() :]}"


def _other_number(figures: str, rng: random.Random) -> str:
    value = int(figures)
    step = rng.choice([-1, 1]) * rng.randint(1, max(3, min(value // 20, 30)))
    return str(value + step if value + step > 0 else value - step)


def statement_of(question: str, answer: str) -> str:
    """Join a question and its answer to a statement: the answer takes the place of who, what, which thing or how many.

    Asked after something else (when, where, why, how), the answer comes last. The auxiliary verb stays where it was, so
    this is no good English, but it says what it says.
    """
    body = question.strip().rstrip("?").strip()
    head = re.match(
        rf"(?:(?:which|whose|how (?:many|much))(?! {_VERB})(?: \w+)?|what(?! {_VERB}) \w+(?= {_VERB})|who|what)\b",
        body,
        re.I,
    )
    if head and not re.match(r"\s*(?:did|does|do)\b", body[head.end() :]):
        return f"{answer.strip().rstrip('.')}{body[head.end() :]}."
    body = re.sub(r"^(?:who|whom|what|which|when|where|why|how)\b\s*(?:did|does|do)?\b\s*", "", body, flags=re.I)
    return f"{body[:1].upper()}{body[1:]} {answer.strip().rstrip('.')}."


def answered(examples: Sequence[ReadingExample], rng: random.Random) -> Iterator[list[Statement]]:
    """Statements of questions and answers: edited, with the answer of another question, and beside another passage."""
    by_text: dict[str, list[ReadingExample]] = {}
    for example in examples:
        if re.search(r"\d$|^Filtered", example.title):  # no title of a page
            example = replace(example, title="")
        by_text.setdefault(example.text, []).append(example)
    texts = list(by_text)
    for text in _shuffled(texts, rng):
        asked = by_text[text]
        made: list[Statement] = []
        for example in asked:
            premise = f"{example.title}: {text}" if example.title else text
            answers = [text[slice(*place)] for place in example.answers]
            answer = min(answers, key=len)
            said = statement_of(example.question, answer)
            # Names before the question's verb are seldom known for certain: those of the passage itself.
            names = [name for name, _ in name_runs(text)]
            made += edits(premise, said, names, example.source, rng)
            wrong = [
                min((text[slice(*place)] for place in other.answers), key=len)
                for other in asked
                if _disjoint(other.answers, example.answers)
            ]
            if wrong:
                changed = statement_of(example.question, rng.choice(wrong))
                made.append(Statement(premise, changed, False, "answer", example.source))
            other = by_text[rng.choice(texts)][0]
            if answer.lower() not in other.text.lower():
                beside = f"{other.title}: {other.text}" if other.title else other.text
                made.append(Statement(beside, said, False, "passage", example.source))
        yield made


def _disjoint(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> bool:
    return all(a[1] <= b[0] or b[1] <= a[0] for a in some for b in others)


def _sub_answers(record: dict[str, Any], rng: random.Random) -> Iterator[Statement]:
    """2WikiMultihopQA's worded sub-answers beside the gold paragraph of their subject."""
    paragraphs, gold = paragraphs_of(record)
    names = sorted({name for text in paragraphs.values() for name, _ in name_runs(text)})
    for pair in record.get("qa_pairs", []):
        for subject, _, value in record["evidences"]:
            plain = [title for title in gold if re.sub(r"\s*\([^()]*\)$", "", title).lower() == subject.lower()]
            if (
                not plain
                or subject.lower() not in pair["answer"].lower()
                or value.lower() not in pair["answer"].lower()
            ):
                continue
            title = plain[0]
            premise = f"{title}: {paragraphs[title]}"
            yield from edits(premise, pair["answer"].rstrip(".") + ".", names, "2wiki", rng)
            related = [t for t in paragraphs if t != title and value.lower() not in paragraphs[t].lower()]
            if related:
                other = rng.choice(related)
                beside = f"{other}: {paragraphs[other]}"
                yield Statement(beside, pair["answer"], False, "passage", "2wiki")
            break


def hotpot_statements(record: dict[str, Any], rng: random.Random) -> Iterator[Statement]:
    """Supporting sentences of HotpotQA that name their subject, or open with a pronoun that stands for the title."""
    paragraphs, gold = paragraphs_of(record)
    names = sorted({name for text in paragraphs.values() for name, _ in name_runs(text)})
    for title in gold:
        premise = f"{title}: {paragraphs[title]}"
        for sentence in split_sentences(paragraphs[title])[:4]:
            said = shortened(sentence, title)
            if said is None:
                continue
            yield from edits(premise, said, names, "hotpot", rng)
            denied, said_denied = denial(sentence, rng), denial(said, rng)
            if denied and said_denied:
                beside = premise.replace(sentence, denied)
                yield Statement(beside, said, False, "negation", "hotpot")
                yield Statement(beside, said_denied, True, "said", "hotpot")
            other = rng.choice([t for t in paragraphs if t != title] or [title])
            if other != title and said.lower() not in paragraphs[other].lower():
                yield Statement(f"{other}: {paragraphs[other]}", said, False, "passage", "hotpot")


def shortened(sentence: str, title: str) -> str | None:
    """A sentence without brackets and what follows its main clause, its subject named; None if it names none."""
    plain = re.sub(r"\s*\([^()]*\)", "", sentence).strip()
    subject = re.sub(r"\s*\([^()]*\)$", "", title)
    if opening := _OPENING.match(plain):
        own = opening.group().lower() in ("his", "her", "its", "their")
        plain = subject + ("'s" if own else "") + plain[opening.end() :]
    elif not name_runs(plain):
        return None
    clause = re.split(r", (?:who|which|where|and|but|as|with)\b|;", plain, maxsplit=1)[0].rstrip(".") + "."
    content = [w for w in re.findall(r"\w+", clause.lower()) if w not in FUNCTION_WORDS]
    return clause if 4 <= len(content) <= 30 else None
