"""Answer a question from sentences: spans that a trained head proposes and weighs, followed in steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from knowgap.lms.embedded.questions import Plan, kind_asked, names_of, plan
from knowgap.lms.embedded.span_head import span_head
from knowgap.lms.embedded.text import Sentence, fold, mentions, name_words, names_in, standalone, stems, value_of

_MOST_PASSAGES = 6
_KIND_ODDS = 8.0  # what a name's log-odds gain where it is known to be of the kind that is asked for
_SETTLED = 0.25  # the confidence from which a question counts as settled
_SETTLED_AT_ONCE = 0.9  # the same, where it is read at once and other passages lead to it
LEAST = 0.1
"""The confidence from which the answers to simple questions are preferred to a direct answer."""
_GUESSED = 0.2  # what is left of the probability of an answer from sentences about something else


@dataclass(frozen=True, slots=True)
class Found:
    """A possible answer: its text, the sentence that contains it, and its probability (0 to 1)."""

    text: str
    sentence: Sentence
    probability: float


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
    def stated(self) -> tuple[Sentence, ...]:
        """The sentences that state the settled facts."""
        return tuple(fact.found.sentence for fact in self.facts if fact.found and fact.settled)

    @property
    def open(self) -> tuple[str, ...]:
        """The simple questions that are not settled."""
        return tuple(fact.asked for fact in self.facts if not fact.settled)


def coverage(question: str, sentence: Sentence) -> float:
    """The share of a question's content words that a sentence with its title has."""
    asked = set(stems(question))
    return len(asked & sentence.titled) / max(len(asked), 1)


@lru_cache(maxsize=4_000)
def read(question: str, sentences: tuple[Sentence, ...]) -> list[Found]:
    """The answers to a simple question, the most probable first; their probabilities sum to less than 1.

    The odds of a span are the mean of those of its start and its end against "not in this passage".
    """
    passages: dict[tuple[int, str], list[Sentence]] = {}
    for sentence in sentences:
        passages.setdefault(sentence.passage, []).append(sentence)
    nearest = sorted(passages.values(), key=lambda own: -max(coverage(question, s) for s in own))[:_MOST_PASSAGES]
    given = [(own[0].title, " ".join(s.text for s in own)) for own in nearest]
    asked, kind = set(stems(question)), kind_asked(question)
    found: list[Found] = []
    for own, candidates in zip(nearest, span_head().candidates(question, given), strict=True):
        for each in candidates:
            if not set(stems(each.text)) <= asked:
                text = each.text.strip(' .,;:"“”')
                if "year" in asked and (year := re.search(r"\b[12]\d{3}\b", text)):
                    text = year[0]
                odds = math.exp(each.margin / 2 + (_KIND_ODDS if _is_a(kind, text, sentences) else 0.0))
                found.append(Found(text, next((s for s in own if text in s.text), own[0]), odds))
    best: dict[tuple[str, ...], Found] = {}  # one of each text
    for one in sorted(found, key=lambda one: -one.probability):
        best.setdefault(name_words(one.text), one)
    whole = 1.0 + sum(one.probability for one in best.values())
    return [replace(one, probability=round(one.probability / whole, 6)) for one in best.values()]


def _is_a(kind: str, text: str, sentences: Sequence[Sentence]) -> bool:
    """Whether a text is the name of a thing of a kind: `Orne River`, or `Orne is a long river`."""
    if not kind or not text[:1].isupper():
        return False
    told = rf"{re.escape(text)}\W? (?:(?:is|was) (?:[\w-]+ ){{0,4}}?)?{kind}\b"
    return re.search(rf"\b{kind}\b", text, re.I) is not None or any(
        text in s.text and re.search(told, s.text, re.I) for s in sentences
    )


def named(question: str, sentences: Sequence[Sentence]) -> frozenset[Sentence]:
    """The sentences that have a name in a question, themselves or in their titles; all if it names nothing."""
    names = names_of(question, titles_in(question, sentences))
    texts = {s: f"{s.title} . . . . {s.text}" for s in sentences}
    return frozenset(s for s in sentences if not names or any(mentions(texts[s], name) for name in names))


def titles_in(question: str, sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """The titles, without a bracketed addition, that a question contains."""
    titles = {re.sub(r"\s*\([^()]*\)$", "", s.title) for s in sentences if s.title}
    return tuple(sorted(title for title in titles if len(title) > 2 and fold(title) in fold(question)))


def answer(question: str, sentences: Sequence[Sentence]) -> Answer:
    """Answer a question from sentences; one that asks the question itself does not answer it."""
    asked = set(stems(question))
    sentences = [s for s in sentences if not s.text.endswith("?") or len({*stems(s.text)} - asked) > 1]
    planned = plan(question, titles_in(question, sentences))
    if planned.form == "value":
        return _value(question, planned, sentences)
    return (_judge if planned.form in ("fit", "true") else _compare)(planned, sentences)


def _ask(step: str, sentences: Sequence[Sentence], question: str) -> Found | None:
    """The best answer to a simple question, from passages about what it names; it is no part of the whole question.

    What a passage about another thing says is read sentence by sentence first, each with what it is about, so that
    other facts of the passage do not distract; the whole passage is read if that brings nothing. Without a passage
    about a name, all are read, but settle nothing.
    """
    text = fold(" ".join(f"{s.title} {s.text}" for s in sentences))
    is_known = all(code in text for code in re.findall(r"[\w-]*\d[\w-]+", fold(step)))  # codes, numbers and years
    naming = named(step, sentences) if is_known else frozenset[Sentence]()
    places = {s.passage for s in naming}
    whole = [s for s in sentences if s.passage in places]
    names = names_of(step, titles_in(step, sentences))
    own = {s.passage for s in whole if not names or any(mentions(s.title, name) for name in names)}
    alone = {s: s if s.passage in own else replace(s, text=standalone(s)) for s in whole if s in naming}
    told = [alone.get(s, s) for s in whole if s.passage in own or s in naming]
    # A passage that opens with its title tells of that; what else it says settles only what is asked of those it names.
    opened = {s.passage for s in whole if s.title and s.text.startswith(s.title)}

    def worth(one: Found) -> float:
        is_title = name_words(one.text) == name_words(one.sentence.title)
        aside = one.sentence.passage in opened and one.sentence not in (*naming, *alone.values())
        return one.probability * (1.0 if whole and (is_title or not aside) else _GUESSED)

    known, found = set(stems(question)), list[Found]()
    for view in (told, whole) if whole else (sentences,):
        possible = (one for one in read(step, tuple(view)) if not set(stems(one.text)) <= known)
        found += [replace(one, probability=worth(one)) for one in possible]
        if any(one.probability >= LEAST for one in found):
            break
    return max(found, key=lambda one: one.probability, default=None)


def _follow(planned: Plan, sentences: Sequence[Sentence]) -> dict[int, Fact]:
    """The simple questions, by their numbers, without those that need an answer which was not found."""
    facts: dict[int, Fact] = {}
    for n, step in enumerate(planned.steps, start=1):
        known = {f"#{i}": fact.found.text for i, fact in facts.items() if fact.found}
        asked = re.sub(r"#\d", lambda match, known=known: known.get(match[0], match[0]), step)
        if not re.search(r"#\d", asked):
            facts[n] = Fact(asked, _ask(asked, sentences, planned.rest))
    return facts


def _value(question: str, planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Follow the steps, or read the whole question at once where that is surer."""
    facts = [*_follow(planned, sentences).values()]
    path = [fact.found for fact in facts if fact.found]
    sure = min(found.probability for found in path) if len(path) == len(planned.steps) else 0.0
    known = next((n for n, fact in enumerate(facts, start=1) if not fact.settled), len(facts))
    guesses = tuple(fact.asked for fact in facts[known:])
    direct = next(iter(read(question, tuple(sentences))), None)
    if direct is not None and direct.probability > sure:
        agreed = bool(path) and name_words(direct.text) == name_words(path[-1].text)
        trail = _trail(question, sentences, direct, by_names=agreed)
        if trail and direct.probability >= _SETTLED_AT_ONCE:
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
    known, texts = set(stems(question)), dict[tuple[int, str], str]()
    for s in sentences:
        texts[s.passage] = f"{texts.get(s.passage, '')} {s.text}"
    for here, text in texts.items():
        reached = [s for s in sentences if s.passage in trails and here not in trails]
        led = [Found(here[1], s, 1.0) for s in reached if mentions(s.text, here[1])]
        if by_names and not led:
            names = ((s, name) for s in reached for name in names_in(s.text) if not set(stems(name)) <= known)
            led = [Found(name, s, 1.0) for s, name in names if mentions(text, name)]
        if led:
            trails[here] = (*trails[led[0].sentence.passage], led[0])
    return trails.get(found.sentence.passage, ())


def _compare(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Answer the questions on each option, and compare the two last answers."""
    facts, last = _follow(planned, sentences), len(planned.steps)
    found = {n: fact.found for n, fact in facts.items() if fact.found}
    support = tuple(dict.fromkeys(f.sentence for f in found.values()))
    one, other = found.get(last - 1), found.get(last)
    texts = ("yes", "no") if planned.form == "same" else planned.options
    if one is None or other is None:
        return Answer(texts[1], 0.0, support, tuple(facts.values()))
    if planned.form == "same":
        first = name_words(one.text) == name_words(other.text)
    else:
        first = (value_of(one.text) <= value_of(other.text)) == (planned.form == "first")
    sure = min(f.probability for f in found.values())
    return Answer(texts[0 if first else 1], sure, support, tuple(facts.values()))


def _judge(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Yes, no or an option, by how much of the statement the sentences about each option cover."""
    wanted = set(stems(planned.rest)) - {stem for option in planned.options for stem in stems(option)}
    shares: list[float] = []
    facts: list[Fact] = []
    for thing in planned.options or ("",):
        about = [s for s in sentences if not thing or mentions(f"{s.title} {s.text}", thing)]
        best = max(about, key=lambda s: len(wanted.intersection(stems(s.text))), default=Sentence(""))
        shares.append(len(wanted.intersection(stems(best.text))) / max(len(wanted), 1))
        facts.append(Fact(f"{thing} {planned.rest}".strip(), Found("yes", best, 1.0) if shares[-1] else None))
    if planned.form == "fit":
        text = planned.options[shares.index(max(shares))]
    else:
        text = "yes" if min(shares) >= 0.5 else "no"
    support = tuple(fact.found.sentence for fact in facts if fact.found)
    return Answer(text, _SETTLED if all(fact.settled for fact in facts) else 0.0, support, tuple(facts))


def bridge(question: str, found: Answer) -> list[str]:
    """The next queries: open questions, or settled ones again; then names behind an answer with what is not said."""
    proposals = [*(found.open or (fact.asked for fact in reversed(found.facts))), *found.guesses]
    for sentence in found.support:
        words = re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", question)
        rest = " ".join(word for word in words if stems(word) and not sentence.titled.intersection(stems(word)))
        for name in (*names_in(sentence.text), sentence.title):
            if name and not set(stems(name)) <= set(stems(question)):
                proposals.append(f"{name} {rest}".strip())
    return list(dict.fromkeys(proposals))
