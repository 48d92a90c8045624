"""Statements with the passages that they cite, and whether these passages support them (ALCE's citation recall)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import dspy

from knowgap.programs.passages import cited, distinct
from knowgap.programs.trace.steps import Extracted
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.sentences import split_sentences

if TYPE_CHECKING:
    from knowgap.retrieval.entailment import EntailmentModel

T = TypeVar("T")

MAX_CITATIONS = 3
"""ALCE looks at the first three citations of a statement."""

_SENTENCE_ENDS = tuple(".!?。！？…")

Claims = dict[str, list[Passage]]
"""The passages that each statement cites."""


def strip_citations(text: str) -> str:
    """The text without its bracketed citations, as ALCE removes them; a text without citations is unchanged."""
    if not re.search(r"\[\d", text):
        return text
    return re.sub(r"\[\d+", "", re.sub(r" \[\d+", "", text)).replace(" |", "").replace("]", "")


def strip_numbers(text: str) -> str:
    """The text without the numbers of sources that a model wrote into it, `[1]` or `[1, 2]`; other brackets stay."""
    return re.sub(r" ?\[[1-9]\d*(?: ?, ?[1-9]\d*)*\]", "", text)


def joined(passages: Iterable[Passage]) -> str:
    """The premise that several passages make together."""
    return "\n".join(str(passage) for passage in passages)


def merge_claims(claims: Iterable[tuple[str, Sequence[Passage]]]) -> Claims:
    """Join the passages of statements that occur several times."""
    merged: Claims = {}
    for statement, passages in claims:
        merged[statement] = distinct([*merged.get(statement, []), *passages])
    return merged


def read_claims(output: dspy.Prediction | None, passages: Sequence[Passage]) -> Claims:
    """The `statements` of a reply with the passages behind the cited numbers; none if the reply could not be read."""
    statements = (output.statements or ()) if output is not None else ()
    worded = ((" ".join(item.statement.split()), item.sources) for item in statements)
    return merge_claims((statement, cited(passages, numbers)) for statement, numbers in worded if statement)


def extracted_step(claims: Claims) -> Extracted:
    """The step that records claims in a trace."""
    sources = [[passage.id for passage in passages] for passages in claims.values()]
    return Extracted(statements=list(claims), sources=sources)


def quotes(statement: str, passage: Passage) -> bool:
    """Whether a statement consists of whole sentences of a passage, word for word, with or without its title."""
    said, title, text = (" ".join(words.casefold().split()) for words in (statement, passage.title, passage.text))
    wordings = {said, said.removeprefix(title).lstrip(" :")} - {""}
    return any(_are_sentences(wording, text) for wording in wordings)


def _are_sentences(words: str, text: str) -> bool:
    """Whether a text contains the words from the start of a sentence to the end of one."""
    before, found, after = text.partition(words)
    begins = not before or before.rstrip().endswith(_SENTENCE_ENDS)
    return bool(found) and begins and (words.endswith(_SENTENCE_ENDS) or not after)


def entailed_claims(
    entailment: EntailmentModel, claims: Claims, threshold: float, others: Sequence[Passage] = ()
) -> Claims:
    """The statements that passages entail with a probability of at least `threshold`.

    Returns:
        Each entailed statement with the cited passages that entail it alone; with all that it cites if only they
        together do; else with the one of `others` that entails it best.
    """
    pairs = [([passage], statement) for statement, passages in claims.items() for passage in passages]
    probabilities = iter(_probabilities(entailment, pairs))
    entailing = {s: [p for p in passages if next(probabilities) >= threshold] for s, passages in claims.items()}
    rest = [([*claims[s]], s) for s, found in entailing.items() if not found and len(claims[s]) > 1]
    for (passages, statement), probability in zip(rest, _probabilities(entailment, rest), strict=True):
        entailing[statement] = passages if probability >= threshold else []
    pairs = [([p], s) for s, found in entailing.items() if not found for p in others if p not in claims[s]]
    best = dict[str, float]()
    for ([passage], statement), probability in zip(pairs, _probabilities(entailment, pairs), strict=True):
        if probability >= threshold and probability > best.get(statement, -1.0):
            entailing[statement], best[statement] = [passage], probability
    return {statement: passages for statement, passages in entailing.items() if passages}


def _probabilities(entailment: EntailmentModel, pairs: Sequence[tuple[list[Passage], str]]) -> list[float]:
    """The probability that the passages of each pair, taken together, entail its statement.

    The model is not asked about sentences that a passage contains word for word: they count as entailed. A statement of
    several sentences, as small models copy them, is also entailed if each of its sentences is.
    """
    texts = [_unquoted(passages, statement) for passages, statement in pairs]
    asked = [(joined(passages), text) for (passages, _), each in zip(pairs, texts, strict=True) for text in each]
    found = iter(entailment.entails(asked))
    probabilities = [[next(found) for _ in each] for each in texts]
    return [max(each[0], min(each[1:], default=0.0)) if each else 1.0 for each in probabilities]


def _unquoted(passages: Sequence[Passage], statement: str) -> list[str]:
    """The texts that the model is asked about: the statement, and those of several sentences that no passage has."""
    if any(quotes(statement, passage) for passage in passages):
        return []
    sentences = split_sentences(statement)
    unquoted = [sentence for sentence in sentences if not any(quotes(sentence, passage) for passage in passages)]
    return [statement, *(unquoted if len(sentences) > 1 else [])] if unquoted else []


def supported(
    entailment: EntailmentModel, claims: Mapping[str, Sequence[Passage]], threshold: float
) -> dict[str, bool]:
    """Whether the passages that each statement cites, taken together, entail it; a statement that cites none is not."""
    citing = {statement: passages for statement, passages in claims.items() if passages}
    pairs = [(joined(passages), statement) for statement, passages in citing.items()]
    probabilities = dict(zip(citing, entailment.entails(pairs), strict=True))
    return {statement: probabilities.get(statement, -1.0) >= threshold for statement in claims}


def citation_recall(entailment: EntailmentModel, claims: Mapping[str, Sequence[Passage]], threshold: float) -> float:
    """The fraction of statements that their citations support, from 0 to 1; 0 without statements.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (EMNLP 2023), section 3.
    """
    entailed = supported(entailment, claims, threshold).values()
    return sum(entailed) / len(entailed) if entailed else 0.0
