"""Answer a question from sentences: its simple questions in order, comparisons, yes or no; and what to ask next."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowgap.lms.embedded.questions import Plan, fill, plan
from knowgap.lms.embedded.reading import Found, coverages, naming, read
from knowgap.lms.embedded.text import Sentence, mentions, name_words, stems, value_of

_SETTLED = 0.35  # the confidence from which a question counts as settled
_LEAST = 0.1  # the confidence from which the answers to simple questions are preferred to a direct answer
_BRANCHES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer (may be empty), its confidence (0 to 1), and the sentences behind it.

    `open` has the simple questions that are not settled, `closed` those that are, with the names found before them.
    """

    text: str
    confidence: float
    support: tuple[Sentence, ...] = ()
    open: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the sentences suffice."""
        return bool(self.text) and self.confidence >= _SETTLED


def answer(question: str, sentences: Sequence[Sentence]) -> Answer:
    """Answer a question from sentences."""
    planned = plan(question)
    if planned.form == "value":
        return _value(question, planned, sentences)
    return (_compare if planned.form in ("order", "same") else _judge)(planned, sentences)


def _ask(step: str, sentences: Sequence[Sentence], question: str = "") -> list[Found]:
    """The best answers to a simple question, from sentences about what it names; none stands in the whole question.

    A sentence whose title is the question is the answer to it.
    """
    key = name_words(step)
    if said := next((s for s in sentences if key and name_words(s.title) == key), None):
        return [Found(said.text, said, 0.9)]
    known = set(stems(question))
    found = read(step, naming(step, sentences))
    return [one for one in found if not set(stems(one.text)) <= known][:_BRANCHES]


def _follow(planned: Plan, filled: dict[int, str], sentences: Sequence[Sentence]) -> list[Found]:
    """The best answers to the remaining steps of a chain, together the most probable; shorter if a step has none."""
    n = len(filled)
    if n == len(planned.steps):
        return []
    paths = [
        [found, *_follow(planned, {**filled, n + 1: found.text}, sentences)]
        for found in _ask(fill(planned.steps[n], filled), sentences, planned.rest)
    ]
    return max(paths, key=lambda path: (len(path), math.prod(found.probability for found in path)), default=[])


def _value(question: str, planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    direct = read(question, tuple(sentences))[:1]
    path = _follow(planned, {}, sentences) if len(planned.steps) > 1 else direct
    sure = min(found.probability for found in path) if path and len(path) == len(planned.steps) else 0.0
    chosen = path if sure >= _LEAST or not direct or sure > direct[0].probability else direct
    asked = [fill(step, {i: f.text for i, f in enumerate(path[:n], 1)}) for n, step in enumerate(planned.steps)]
    done = next((n for n, found in enumerate(path) if found.probability < _SETTLED), len(path))
    support = tuple(dict.fromkeys(found.sentence for found in chosen))
    return Answer(chosen[-1].text if chosen else "", sure, support, tuple(asked[done : done + 1]), tuple(asked[:done]))


def _compare(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Answer the questions on each option, and compare the two last answers."""
    found: dict[int, Found] = {}
    missing: list[str] = []
    last = len(planned.steps)
    for n, step in enumerate(planned.steps, start=1):
        asked = fill(step, {i: f.text for i, f in found.items()})
        if "#" in asked:
            continue
        candidates = _ask(asked, sentences)
        if n > last - 2 and planned.form == "order":
            candidates = [f for f in candidates if value_of(f.text)]
        if candidates:
            found[n] = candidates[0]
        if not candidates or candidates[0].probability < _SETTLED:
            missing.append(asked)
    support = tuple(dict.fromkeys(f.sentence for f in found.values()))
    one, other = found.get(last - 1), found.get(last)
    if one is None or other is None:
        text = "no" if planned.polar else planned.options[1 if one is None and other else 0]
        return Answer(text, 0.0, support, tuple(missing))
    ordered = planned.form == "order"
    first = value_of(one.text) <= value_of(other.text) if ordered else name_words(one.text) == name_words(other.text)
    texts = ("yes", "no") if planned.polar else planned.options
    sure = min(f.probability for f in found.values()) if len(found) == last else 0.0
    return Answer(texts[0 if first == planned.least else 1], sure, support, tuple(missing))


def _judge(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Yes, no or an option, by how much of what is said the sentences about each thing cover."""
    wanted = set(stems(planned.rest)) - {stem for option in planned.options for stem in stems(option)}
    shares, support, missing = [], [], []
    for thing in planned.options or ("",):
        about = [s for s in sentences if not thing or mentions((*s.words, *name_words(s.title)), thing)]
        best = sorted(about, key=lambda s: -len(s.content & wanted))[:1]
        covered = {stem for s in best for stem in s.content & wanted}
        shares.append(len(covered) / max(len(wanted), 1))
        support += best
        missing += [] if covered else [f"{thing} {planned.rest}".strip()]
    if planned.form == "fit":
        text, sure = planned.options[shares.index(max(shares))], 0.5 * max(shares)
    else:
        text, sure = "yes" if min(shares) >= 0.5 else "no", max(min(shares), _SETTLED)
    return Answer(text, 0.0 if missing else sure, tuple(support), tuple(missing))


def uncovered(question: str, sentences: Sequence[Sentence]) -> str:
    """The question's content words that the sentences do not have, as they stand there."""
    present = frozenset[str]().union(*(s.titled for s in sentences))
    words = re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", question)
    return " ".join(word for word in words if (own := stems(word)) and not set(own) & present)


def bridge(question: str, sentences: Sequence[Sentence], found: Answer) -> list[str]:
    """What to ask next: open questions, or settled ones again; then names in the best sentences with what they lack."""
    proposals = list(found.open or reversed(found.closed))
    scores = dict(zip(sentences, coverages(question, sentences), strict=True))
    ranked = [s for s in sorted(scores, key=lambda sentence: -scores[sentence])[:4] if scores[s] > 0.1]
    for sentence in (*found.support, *ranked):
        rest = uncovered(question, [sentence])
        for name in (*sentence.names, sentence.title):
            if name and not set(stems(name)) <= set(stems(question)):
                proposals.append(f"{name} {rest}".strip())
    return list(dict.fromkeys(proposals))
