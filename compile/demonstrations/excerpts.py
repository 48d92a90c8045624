"""Excerpts of the passages in demonstrations: long ones make every prompt expensive, and mislead small models."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from knowgap.retrieval.sentences import split_sentences
from knowgap.retrieval.words import content_words, words

EXCERPT_WORDS = 60
"""The number of words beyond which a demonstration shows an excerpt of a passage."""


def with_excerpts(demo: dict[str, Any], outputs: Collection[str]) -> dict[str, Any]:
    """Shorten the passages that a demonstration shows to the sentences that its outputs rest on; see `excerpt`.

    Args:
        demo: the JSON values of a demonstration by field; passages have a title and a text.
        outputs: the names of its output fields.
    """
    answer = content_words(" ".join(str(demo[name]) for name in outputs if name in demo))
    question = content_words(str(demo.get("question", "")))

    def shorten(item: Any) -> Any:
        is_passage = isinstance(item, dict) and "title" in item and isinstance(item.get("text"), str)
        return {**item, "text": excerpt(item["text"], answer, question)} if is_passage else item

    return {
        name: [shorten(item) for item in value] if isinstance(value, list) and name not in outputs else value
        for name, value in demo.items()
    }


def excerpt(text: str, answer: Collection[str], question: Collection[str]) -> str:
    """An excerpt of a passage: its first sentence, and those that share most words with an answer or its question.

    The sentences keep their order. The first sentence and the best of the others are always kept, and more as long as
    they are `EXCERPT_WORDS` words together. A shorter text stays as it is. Answer and question are given by their
    content words; those of the answer count first.
    """
    if len(words(text)) <= EXCERPT_WORDS:
        return text
    sentences = [(place, sentence, words(sentence)) for place, sentence in enumerate(split_sentences(text))]
    first, *others = sentences
    wanted = {*answer}, {*question}
    others.sort(key=lambda each: [len(some.intersection(each[2])) for some in wanted], reverse=True)
    kept = [first, *others[:1]]
    for each in others[1:]:
        if sum(len(found) for _, _, found in [*kept, each]) <= EXCERPT_WORDS:
            kept.append(each)
    return " ".join(sentence for _, sentence, _ in sorted(kept))
