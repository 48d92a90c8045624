"""Find what helps with a question: useful sentences, relevant passages, and what to ask next."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowgap.lms.embedded.answers import Answer
from knowgap.lms.embedded.english.language import STOP_WORDS, Sentence, fold, same_name, stem, stems
from knowgap.lms.embedded.english.phrases import Chain
from knowgap.lms.embedded.english.questions import Question
from knowgap.lms.embedded.english.sentences import matches, read_passage
from knowgap.lms.embedded.guessing import overlap, rank_sentences, weights
from knowgap.lms.embedded.inputs import Inputs, asked_before, given_answers, passages, plain, question_of, sentences_of
from knowgap.lms.embedded.solving import answer, walk

__all__ = ["assess", "lacking", "next_queries", "relevant", "useful"]


def useful(
    question: Question, queries: Sequence[Question], sentences: Sequence[Sentence], most: int = 8
) -> list[Sentence]:
    """Choose at most `most` sentences that help, and return them in their order.

    The best settle a step of the question or of a query; the next best mention its names in its words; the last are
    about a thing of which a fact is missing.
    """
    worth: dict[Sentence, float] = {}

    def keep(sentence: Sentence, value: float) -> None:
        worth[sentence] = max(worth.get(sentence, 0.0), value)

    names, missing, cues = set[str](), set[str](), set[str]()
    counts = weights(sentences)
    for target in (question, *queries):
        names.update(target.options)
        for chain in target.chains:
            cues.update(*(relation.cues for relation in chain.relations))
            for step in walk(chain, sentences).steps:
                names.add(step.name)
                if step.found is None:
                    missing.add(step.name)
                else:
                    keep(step.found.sentence, 2.0)
        wanted = frozenset(stems(target.text))
        for sentence in sentences if not target.chains else ():
            if (share := overlap(wanted, sentence, counts, len(sentences))) >= 0.2:
                keep(sentence, share)
    for sentence in sentences:
        on = max((matches(sentence, name) for name in names), default=0.0)
        cued = any(token.stem in cues for token in sentence.tokens)
        opening = sentence.order == 0
        if on and (cued or (on >= 0.7 and opening)):
            keep(sentence, 0.5 + 0.4 * on * cued + 0.2 * opening)
        elif any(same_name(sentence.title, name) == 1 for name in missing):
            keep(sentence, 0.3)
    best = sorted(worth, key=lambda s: (-worth[s], s.source, s.order))[:most]
    return sorted(best, key=lambda s: (s.source, s.order))


def relevant(question: Question, sentences: Sequence[Sentence]) -> tuple[bool, str]:
    """Tell whether sentences settle a first step of the question or cover most of its words, and why."""
    for chain in question.chains:
        step = walk(Chain(chain.entity, chain.relations[:1]), sentences).steps[0]
        if step.found is not None:
            return True, f"it gives {step.missing}: {step.found.value}"
    wanted, counts = frozenset(stems(question.text)), weights(sentences)
    covered = {word for s in sentences for word in s.stems | frozenset(stems(s.title))} & wanted
    names = [chain.entity for chain in question.chains] or [*question.options, *_names(question.text)]
    named = any(matches(sentence, name) for name in names for sentence in sentences)
    if sentences and named and len(covered) >= (0.5 if question.chains else 0.3) * max(1, len(wanted)):
        best = max(sentences, key=lambda s: overlap(wanted, s, counts, len(sentences)))
        return True, f"it says: {best.text}"
    return False, "it says nothing of what is asked"


def assess(inputs: Inputs) -> list[tuple[int, bool, str]]:
    """Return each passage's id, whether it is relevant, alone or together with the others, and why."""
    question = question_of(inputs)
    texts = [(ident, read_passage(title, text, ident)) for ident, title, text in passages(inputs["passages"])]
    used = {s.source for s in answer(question, [s for _, sentences in texts for s in sentences]).support}
    verdicts = []
    for ident, sentences in texts:
        good, why = relevant(question, sentences)
        verdicts.append(
            (ident, True, "it goes on from another passage") if ident in used and not good else (ident, good, why)
        )
    return verdicts


def next_queries(inputs: Inputs, most: int) -> list[str]:
    """Propose one to `most` questions for the open steps, none of which was asked before."""
    question, (given, extra) = question_of(inputs), given_answers(inputs)
    sentences = [*sentences_of(inputs), *extra]
    lacks = answer(question, sentences, given, guess=False).lacks
    proposals = [step.relation.question(step.name) for step in lacks]
    for step in lacks:
        proposals += [f"{step.name} {step.relation.name}", f"What is known about {step.name}?"]
    if not lacks:  # everything is there: the settled steps once more, last ones first
        steps = [step for chain in question.chains for step in reversed(walk(chain, sentences, given).steps)]
        proposals += [step.relation.question(step.name) for step in steps]
    if not question.chains:
        proposals += _open_queries(question, sentences)
    proposals += [f"Who or what is {name}?" for name in (*question.options, *_names(question.text))]
    before = asked_before(inputs)
    fresh = {plain(text): text for text in reversed(proposals) if plain(text) not in before}
    found = [text for text in dict.fromkeys(proposals) if fresh.get(plain(text)) == text]
    wanted = max(1, len(lacks)) if question.chains and most > 2 else most
    return found[: min(most, wanted)] or [f"{question.text.rstrip(' ?')}: further facts"]


def _open_queries(question: Question, sentences: Sequence[Sentence]) -> list[str]:
    """Propose queries for a question that no rule fits: names from the best sentences, and the words not covered."""
    ranked = [sentence for share, sentence in rank_sentences(question.text, sentences)[:4] if share > 0.1]
    covered = {word for s in ranked for word in s.stems | frozenset(stems(s.title))}
    asked = set(stems(question.text))
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)*", question.text)
    rest = [word for word in words if stem(word) not in covered and fold(word) not in STOP_WORDS][:8]
    found = [name for s in ranked for name in (s.title, *(span.text for span in s.spans if span.kind == "name"))]
    return list(dict.fromkeys(" ".join([name, *rest]) for name in found if name and not set(stems(name)) <= asked))[:3]


def _names(text: str) -> list[str]:
    return [span.text for sentence in read_passage("", text) for span in sentence.spans if span.kind == "name"]


def lacking(question: Question, found: Answer) -> str:
    """Say in words which facts an answer lacks."""
    return "; ".join(dict.fromkeys(step.missing for step in found.lacks)) or f"facts that answer: {question.text}"
