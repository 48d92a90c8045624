"""Example questions, made from the titles and first sentences of an index."""

from __future__ import annotations

import itertools
import re
from typing import Any

from knowgap.retrieval.passage import Passage
from knowgap.retrieval.sentences import split_sentences

_LOOKED_AT = 20_000  # passages at the beginning of an index
_CANDIDATES = 256  # of those, evenly spread
_LONGEST_TITLE = 60  # characters
_QUESTIONS = 4


def example_questions(index: Any) -> list[str]:
    """Make at most four questions that passages of an index answer, from different files, without a language model.

    They are such as "What is …?" and "Who was …?", for passages in English whose first sentence defines their title;
    an index without such passages, or whose passages cannot be iterated over, such as a remote one, gives none.
    """
    if not (hasattr(index, "__iter__") and hasattr(index, "__len__")):
        return []
    end = min(len(index), _LOOKED_AT)
    questions: dict[str, str] = {}
    for passage in itertools.islice(iter(index), 0, end, max(1, end // _CANDIDATES)):
        if question := _question(passage):
            questions.setdefault(passage.id.partition("#")[0], question)
    found = list(dict.fromkeys(questions.values()))
    return found[:: max(1, len(found) // _QUESTIONS)][:_QUESTIONS]


def _question(passage: Passage) -> str:
    title = passage.title.strip()
    if not 2 < len(title) <= _LONGEST_TITLE or title.endswith("?"):
        return title if title.endswith("?") else ""
    first = next(iter(split_sentences(passage.text[:400])), "")
    name = re.escape(re.sub(r"\s*\(.*\)$", "", title))
    said = re.match(rf"(?:The |An? )?{name}\s*(\([^)]*\))?,?[^.]{{0,40}}? (is|was|are|were) (?:an?|the|one)\b", first)
    if said is None:
        return ""
    person = re.search(r"\b(?:he|she|his|her|born)\b", passage.text, re.I)
    article = "the " if said[0].startswith("The ") and not title.startswith("The ") else ""
    return f"{'Who' if person else 'What'} {said[2]} {article}{title}?"
