"""Answer a question from sentences: spans that a trained head proposes and weighs, followed in steps."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from knowgap.lms.embedded.questions import LINK, Plan, kind_asked, names_of, plan
from knowgap.lms.embedded.span_head import span_head
from knowgap.lms.embedded.text import Sentence, dates, fold, mentions, name_words, plain_title, stems, value_of

_MOST_PASSAGES = 6
_KIND_ODDS = 8.0  # what a name's log-odds gain where it is known to be of the kind that is asked for


@dataclass(frozen=True, slots=True)
class Found:
    """A possible answer: its text, the sentence that contains it, and its probability (0 to 1)."""

    text: str
    sentence: Sentence
    probability: float


def coverages(question: str, sentences: Sequence[Sentence]) -> dict[Sentence, float]:
    """How much of the question each sentence with its title covers, 0 to 1, by rarity of words."""
    counts = Counter(stem for sentence in sentences for stem in sentence.content)
    weights = {stem: math.log(1 + (len(sentences) + 1) / (counts[stem] + 0.5)) for stem in sorted(set(stems(question)))}
    whole = sum(weights.values()) or 1.0
    return {s: sum(weight for stem, weight in weights.items() if stem in s.titled) / whole for s in sentences}


@lru_cache(maxsize=4_000)
def read(question: str, sentences: tuple[Sentence, ...]) -> list[Found]:
    """The answers to a simple question, the most probable first; their probabilities and that of no answer sum to 1.

    The odds of a span are the mean of those of its start and its end against "not in this passage".
    """
    passages: dict[tuple[int, str], list[Sentence]] = {}
    for sentence in sentences:
        passages.setdefault(sentence.passage, []).append(sentence)
    covered = coverages(question, sentences)
    chosen = sorted(passages.values(), key=lambda own: -max(covered[s] for s in own))[:_MOST_PASSAGES]
    given = [(own[0].title, " ".join(s.text for s in own)) for own in chosen]
    asked, kind = set(stems(question)), kind_asked(question)
    groups: dict[tuple[str, ...], list[Found]] = {}  # the places of the same answer
    for own, candidates in zip(chosen, span_head().candidates(question, given), strict=True):
        for each in candidates:
            if not set(stems(each.text)) <= asked:
                said, place = each.text.strip(' .,;:"“”'), next((s for s in own if each.text in s.text), own[0])
                weight = math.exp(each.margin / 2 + (_KIND_ODDS if _is_a(kind, said, sentences) else 0.0))
                found = Found(_whole_date(question, said, place.text), place, weight)
                groups.setdefault(name_words(found.text), []).append(found)
    odds = {name: sum(found.probability for found in places) for name, places in groups.items()}
    whole = 1.0 + sum(odds.values())
    best = {name: max(places, key=lambda found: found.probability) for name, places in groups.items()}
    ranked = [replace(best[name], probability=round(own / whole, 6)) for name, own in odds.items()]
    return sorted(ranked, key=lambda one: -one.probability)


def _is_a(kind: str, text: str, sentences: Sequence[Sentence]) -> bool:
    """Whether a text names a thing of a kind, as `Orne River` does, or `Orne` where `Orne is a long river` stands."""
    if not kind or not text[:1].isupper():
        return False
    one = rf"\b{re.escape(kind)}s?\b"
    told = rf"{re.escape(text)}\W? (?:(?:is|was|are|were) (?:an? |the )?(?:[\w-]+ ){{0,3}}?)?{one}"
    return any(re.search(f"^{one}|{one}$", text, re.I) or re.search(told, s.text, re.I) for s in sentences)


def _whole_date(question: str, text: str, sentence: str) -> str:
    """A part of a date as the whole date, or as its year where a year is asked for; other texts as they are."""
    for start, end, (year, *_) in dates(sentence):
        if text in sentence[start:end]:
            return f"{year:.0f}" if "year" in stems(question) else sentence[start:end]
    return text


def named(question: str, sentences: Sequence[Sentence]) -> frozenset[Sentence]:
    """The sentences that have a name in a question, themselves or in their titles; all if it names nothing.

    None if a code, a number or a year in the question is nowhere.
    """
    text = fold(" ".join(f"{s.title} {s.text}" for s in sentences))
    if not all(code in text for code in re.findall(r"[\w-]*\d[\w-]+", fold(question))):
        return frozenset()
    names = names_of(question, titles_in(question, sentences))
    kept = (s for s in sentences if any(mentions(s.words, n) or set(stems(n)) <= set(stems(s.title)) for n in names))
    return frozenset(kept if names else sentences)


_SETTLED = 0.25  # the confidence from which a question counts as settled
_SETTLED_AT_ONCE = 0.5  # the same, where it is read at once and other passages lead to it
LEAST = 0.1
"""The confidence from which the answers to simple questions are preferred to a direct answer."""
_STEPS = 3  # from what a question names to the passage of its answer
_TOLD = 0.9  # the probability of what is not read by the span head
_MOST = 0.7  # of the words of a description
_GUESSED = 0.2  # what is left of the probability of an answer from sentences about something else


@dataclass(frozen=True, slots=True)
class Fact:
    """A simple question, in which earlier answers are filled in, and its answer; None if there is none."""

    asked: str
    found: Found | None = None

    @property
    def settled(self) -> bool:
        """Whether a sentence states it."""
        return self.found is not None and self.found.probability >= _SETTLED


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer (may be empty), its confidence (0 to 1), the sentences behind it, and the facts that it needs."""

    text: str
    confidence: float
    support: tuple[Sentence, ...] = ()
    facts: tuple[Fact, ...] = ()
    guesses: tuple[str, ...] = ()
    """Questions to go on with if the best answer to one that is not settled is right."""

    @property
    def settled(self) -> bool:
        """Whether the sentences suffice."""
        return bool(self.text) and self.confidence >= _SETTLED

    @property
    def open(self) -> tuple[str, ...]:
        """The simple questions that are not settled."""
        return tuple(fact.asked for fact in self.facts if not fact.settled)


def answer(question: str, sentences: Sequence[Sentence]) -> Answer:
    """Answer a question from sentences; one that asks the question itself does not answer it."""
    asked = set(stems(question))
    sentences = [s for s in sentences if not s.text.endswith("?") or len(s.content - asked) > 1]
    planned = plan(question, titles_in(question, sentences))
    if planned.form == "value":
        return _value(question, planned, sentences)
    return (_compare if planned.form in ("order", "same") else _judge)(planned, sentences)


def _ask(step: str, sentences: Sequence[Sentence], question: str) -> Found | None:
    """The best answer to a simple question, from passages about what it names; it is no part of the whole question.

    A sentence whose title is the question itself is the answer. Without a passage about a name, all are read, but
    settle nothing. An answer is worth up to half as much where its passage has less of what is asked of the names.
    """
    key = name_words(step)
    if said := next((s for s in sentences if key and name_words(s.title) == key), None):
        return Found(said.text, said, _TOLD)
    if thing := _described(step, sentences):
        return thing
    naming, names = named(step, sentences), names_of(step, titles_in(step, sentences))
    places = {s.passage for s in naming}
    about = tuple(s for s in sentences if s.passage in places)
    # A passage that opens with its title tells of that; what else it says settles only what is asked of those it names.
    opened = {s.passage for s in sentences if s.title and s.text.startswith(s.title)}
    asked, known = set(stems(step)) - {stem for name in names for stem in stems(name)}, set(stems(question))

    def worth(one: Found) -> float:
        is_title = name_words(one.text) == name_words(one.sentence.title)
        aside = one.sentence.passage in opened and one.sentence not in naming
        told = frozenset[str]().union(*(s.titled for s in about if s.passage == one.sentence.passage))
        share = len(asked & told) / len(asked) if asked else 1.0
        return one.probability * (1.0 if about and (is_title or not aside) else _GUESSED) / (2 - share)

    found = [one for one in read(step, about or tuple(sentences)) if not set(stems(one.text)) <= known]
    best = max(found, key=worth, default=None)
    return best and replace(best, probability=worth(best))


def _described(step: str, sentences: Sequence[Sentence]) -> Found | None:
    """The one thing that a step describes, such as `the film that Ann Lee made in 1920`, by its passage's title.

    The passage opens with the kind of thing. With the sentences elsewhere that name the title, it has all names and
    numbers of the description and most of its words.
    """
    described = re.match(rf"Wh(?:o|at) is (?:[Tt]he|an?) (?:[a-z][\w-]* )*?([a-z][\w-]*) {LINK} ", step)
    if described is None:
        return None
    names, asked, found = names_of(step, titles_in(step, sentences)), set(stems(step)), list[Found]()
    needed = {stem for name in names for stem in stems(name)} | {stem for stem in asked if re.search(r"\d", stem)}
    for first in sentences:
        title = plain_title(first.title) if " / " not in first.title else ""  # no headings
        if first.order == 0 and title and set(stems(described[1])) <= first.content and not set(stems(title)) <= asked:
            about = [s for s in sentences if s.passage == first.passage or mentions(s.words, title)]
            told = frozenset[str]().union(*(s.titled for s in about))
            if needed <= told and len(asked & told) >= _MOST * len(asked):
                found.append(Found(title, next((s for s in about if s.passage != first.passage), first), _TOLD))
    return found[0] if len(found) == 1 else None


def titles_in(question: str, sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """The titles, without a bracketed addition, that a question contains."""
    titles = {plain_title(s.title) for s in sentences}
    return tuple(sorted(title for title in titles if len(title) > 2 and fold(title) in fold(question)))


def _follow(planned: Plan, sentences: Sequence[Sentence]) -> dict[int, Fact]:
    """The simple questions, by their numbers, without those that need an answer which was not found."""
    facts: dict[int, Fact] = {}
    for n, step in enumerate(planned.steps, start=1):
        answers = {i: fact.found.text for i, fact in facts.items() if fact.found}
        asked = re.sub(r"#(\d)", lambda match, known=answers: known.get(int(match[1]), match[0]), step)
        if not re.search(r"#\d", asked):  # no chain of facts leads back to where it was
            known = [planned.rest, *(answers.values() if planned.form == "value" else ())]
            facts[n] = Fact(asked, _ask(asked, sentences, " ".join(known)))
    return facts


def _value(question: str, planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Follow the steps, or read the whole question at once where that is surer."""
    facts = [*_follow(planned, sentences).values()]
    path = [fact.found for fact in facts if fact.found]
    sure = min(found.probability for found in path) if len(path) == len(planned.steps) else 0.0
    known = next((n for n, fact in enumerate(facts, start=1) if not fact.settled), len(facts))
    guesses = tuple(fact.asked for fact in facts[known:])
    direct = next(iter(read(question, tuple(sentences))), None)
    agreed = direct is not None and bool(path) and name_words(direct.text) == name_words(path[-1].text)
    if direct is not None and direct.probability > sure and not (agreed and sure >= _SETTLED):
        trail = _trail(question, sentences, direct, by_names=agreed)
        # Where only the last fact is missing, a passage about another thing than it is asked of does not tell it.
        thing = name_words(path[known - 2].text) if 1 < known == len(planned.steps) and path[1:] else ()
        titles = {name_words(s.title) for s in sentences}
        elsewhere = thing in titles - {name_words(direct.sentence.title)}
        if trail and direct.probability >= _SETTLED_AT_ONCE and not elsewhere:
            told = [Fact(f"{one.sentence.title}, which names", one) for one in trail]
            support = (*(one.sentence for one in trail), direct.sentence)
            return Answer(direct.text, direct.probability, support, (*told, Fact(question, direct)))
        if sure < LEAST:
            return Answer(direct.text, 0.0, (direct.sentence,), tuple(facts[:known]), guesses)
    support = tuple(dict.fromkeys(found.sentence for found in path))
    return Answer(path[-1].text if path else "", sure, support, tuple(facts[:known]), guesses)


def _trail(question: str, sentences: Sequence[Sentence], found: Found, by_names: bool) -> tuple[Found, ...]:
    """What leads from the things that a question names to the passage of an answer: each names the title of the next.

    With `by_names`, a name that both passages have leads on as well. Empty if the passage itself speaks of what is
    named, or nothing leads to it.
    """
    trails: dict[tuple[int, str], tuple[Found, ...]] = {s.passage: () for s in named(question, sentences)}
    known, places = set(stems(question)), dict[tuple[int, str], list[str]]()
    for s in sentences:
        places.setdefault(s.passage, []).extend(s.words)
    for _ in range(_STEPS):
        for here, words in places.items():
            reached = [s for s in sentences if s.passage in trails and here not in trails]
            led = [Found(here[1], s, 1.0) for s in reached if here[1] and mentions(s.words, here[1])]
            if by_names and not led:
                names = ((s, name) for s in reached for name in s.names if not set(stems(name)) <= known)
                led = [Found(name, s, 1.0) for s, name in names if mentions(tuple(words), name)]
            if led:
                trails[here] = (*trails[led[0].sentence.passage], led[0])
    return trails.get(found.sentence.passage, ())


def _compare(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Answer the questions on each option, and compare the two last answers."""
    facts, last = _follow(planned, sentences), len(planned.steps)
    found = {n: fact.found for n, fact in facts.items() if fact.found}
    support = tuple(dict.fromkeys(f.sentence for f in found.values()))
    one, other = found.get(last - 1), found.get(last)
    if one is None or other is None:
        text = "no" if planned.polar else planned.options[1 if one is None and other else 0]
        return Answer(text, 0.0, support, tuple(facts.values()))
    ordered = planned.form == "order"
    first = value_of(one.text) <= value_of(other.text) if ordered else name_words(one.text) == name_words(other.text)
    texts = ("yes", "no") if planned.polar else planned.options
    sure = min(f.probability for f in found.values()) if len(found) == last else 0.0
    return Answer(texts[0 if first == planned.least else 1], sure, support, tuple(facts.values()))


def _judge(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Yes, no or an option, by how much of the statement the sentences about each option cover."""
    wanted = set(stems(planned.rest)) - {stem for option in planned.options for stem in stems(option)}
    shares: list[float] = []
    facts: list[Fact] = []
    for thing in planned.options or ("",):
        about = [s for s in sentences if not thing or mentions((*s.words, *name_words(s.title)), thing)]
        best = sorted(about, key=lambda s: -len(s.content & wanted))[:1]
        covered = {stem for s in best for stem in s.content & wanted}
        shares.append(len(covered) / max(len(wanted), 1))
        facts.append(Fact(f"{thing} {planned.rest}".strip(), Found("yes", best[0], 1.0) if covered else None))
    if planned.form == "fit":
        text, sure = planned.options[shares.index(max(shares))], 0.5 * max(shares)
    else:
        text, sure = "yes" if min(shares) >= 0.5 else "no", max(min(shares), _SETTLED)
    support = tuple(fact.found.sentence for fact in facts if fact.found)
    return Answer(text, sure if all(fact.settled for fact in facts) else 0.0, support, tuple(facts))
