"""Answer without a chain: rank sentences by word overlap and take the span that fits the kind of question."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from knowgap.lms.embedded.answers import Answer
from knowgap.lms.embedded.english.language import STOP_WORDS, Sentence, name_key, stem, stems
from knowgap.lms.embedded.english.questions import Question
from knowgap.lms.embedded.english.sentences import matches

__all__ = ["overlap", "rank_sentences", "read_openly", "weights"]


def weights(sentences: Sequence[Sentence]) -> Counter[str]:
    """Count in how many sentences each stem occurs."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence.stems)
    return counts


def overlap(wanted: frozenset[str], sentence: Sentence, counts: Mapping[str, int], total: int) -> float:
    """The fraction (0 to 1) of the wanted stems, weighted by rarity, in a sentence and its title."""

    def weight(word: str) -> float:
        return math.log(1 + (total + 1) / (counts.get(word, 0) + 0.5))

    whole = sum(weight(word) for word in wanted)
    here = sentence.stems | frozenset(stems(sentence.title))
    return sum(weight(word) for word in wanted & here) / whole if whole else 0.0


def rank_sentences(text: str, sentences: Sequence[Sentence]) -> list[tuple[float, Sentence]]:
    """Sort sentences by their overlap with a text, best first."""
    wanted, counts = frozenset(stems(text)), weights(sentences)
    scored = [(overlap(wanted, sentence, counts, len(sentences)), sentence) for sentence in sentences]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].source, pair[1].order))


def read_openly(question: Question, sentences: Sequence[Sentence], guess: bool, extra: Sequence[str] = ()) -> Answer:
    """Answer from the best-matching sentences; without `guess`, only where they cover most of the question.

    `extra` has names to which the question leads; none of them can be the answer.
    """
    ranked = rank_sentences(" ".join([question.text, *extra]), sentences)
    if question.form in ("polar", "same", "order"):
        return _polar(question, ranked, guess)
    if question.options and not question.chains:
        return _choose(question, ranked)
    wanted = frozenset(stems(question.text))
    covered = {word for _, s in ranked[:8] for word in (s.stems | frozenset(stems(s.title))) & wanted}
    coverage = len(covered) / len(wanted) if wanted else 0.0
    named = wanted | frozenset(stems(" ".join(extra)))
    candidates: dict[tuple[str, ...], tuple[float, str, Sentence]] = {}
    for score, sentence in ranked[:12]:
        for span, bonus in _candidates(question, sentence):
            key = name_key(span)
            fresh = [w for w in key if stem(w) not in named and w not in STOP_WORDS]
            if not fresh:
                continue
            value = score + bonus + _nearness(sentence, span, wanted)
            before = candidates.get(key)
            if before is None or value > before[0]:
                candidates[key] = (value, span, sentence)
    if candidates:
        value, span, sentence = max(candidates.values(), key=lambda c: (c[0], -c[2].source, -c[2].order))
        sure = min(0.85, coverage * min(1.0, value))
        if guess or coverage >= 0.6:
            return Answer(span, sure, (sentence,))
    if not guess:
        return Answer("", 0.0)
    if question.options:
        return Answer(question.options[0], 0.2)
    if ranked and ranked[0][0] > 0:
        return Answer(ranked[0][1].title or "unknown", 0.1, (ranked[0][1],))
    return Answer("unknown", 0.0)


def _candidates(question: Question, sentence: Sentence) -> list[tuple[str, float]]:
    kind = question.kind
    if kind == "date":
        return [(s.text, 0.3) for s in sentence.spans if s.kind == "date"]
    if kind == "number":
        return [(s.text, 0.3) for s in sentence.spans if s.kind == "number"]
    found = []
    for span in (s for s in sentence.spans if s.kind == "name"):
        before = sentence.tokens[span.first - 1].folded if span.first else ""
        after = sentence.tokens[span.last].text if span.last < len(sentence.tokens) else "."
        adjective = span.last - span.first == 1 and after[0].islower() and after not in STOP_WORDS
        fitting = (kind == "place" and before in ("in", "at", "from", "near")) or (
            kind == "person" and 2 <= span.last - span.first <= 4
        )
        found.append((span.text, 0.15 * fitting - 0.2 * adjective))
    found += [(m.group(1), 0.1) for m in re.finditer(r"[\"“]([^\"”]{2,60})[\"”]", sentence.text) if kind == "thing"]
    if sentence.title:
        found.append((re.sub(r"\s*\([^()]*\)$", "", sentence.title), 0.15))
    return found


def _nearness(sentence: Sentence, text: str, wanted: frozenset[str]) -> float:
    """A bonus of up to 0.3 for words of the question near the span."""
    at = next((s for s in sentence.spans if s.text == text), None)
    if at is None:
        return 0.0
    near = {t.stem for t in sentence.tokens[max(at.first - 6, 0) : at.first]} | {
        t.stem for t in sentence.tokens[at.last : at.last + 6]
    }
    return 0.1 * min(3, len(near & wanted))


def _polar(question: Question, ranked: Sequence[tuple[float, Sentence]], guess: bool) -> Answer:
    wanted = frozenset(stems(question.text))
    best = ranked[0] if ranked else None
    if best is None:
        return Answer("no", 0.1) if guess else Answer("", 0.0)
    if question.options:  # are A and B both so?
        wanted -= frozenset(stems(" ".join(question.options)))
        about = [[s for _, s in ranked if matches(s, option)] for option in question.options]
        shares = [len({w for s in side for w in s.stems & wanted}) / max(1, len(wanted)) for side in about]
        if all(about) or guess:
            support = tuple(side[0] for side in about if side)
            return Answer("yes" if min(shares) >= 0.5 else "no", 0.5, support)
    together = {w for _, s in ranked[:4] for w in (s.stems | frozenset(stems(s.title))) & wanted}
    share = len(together) / max(1, len(wanted))
    negated = {"not", "never", "no"} & {t.folded for t in best[1].tokens}
    support = tuple(s for _, s in ranked[:2])
    if share >= 0.85:
        return Answer("no" if negated else "yes", 0.6, support)
    return Answer("no", 0.3, support) if guess or share >= 0.6 else Answer("", 0.0, support)


def _choose(question: Question, ranked: Sequence[tuple[float, Sentence]]) -> Answer:
    best = ("", -1.0, None)
    wanted = frozenset(stems(question.text)) - frozenset(s for o in question.options for s in stems(o))
    for option in question.options:
        about = [s for _, s in ranked if matches(s, option)]
        share = len({w for s in about for w in s.stems & wanted}) / max(1, len(wanted))
        if share > best[1]:
            best = (option, share, about[0] if about else None)
    return Answer(best[0], 0.4 if best[1] > 0 else 0.1, (best[2],) if best[2] is not None else ())
