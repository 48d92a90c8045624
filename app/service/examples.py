"""Example questions, made from the titles and first sentences of an index."""

from __future__ import annotations

import itertools
import re
from typing import Any

from knowgap.retrieval.passage import Passage
from knowgap.retrieval.sentences import split_sentences

_LOOKED_AT = 20_000  # passages at the beginning of an index
_CANDIDATES = 64  # of those, evenly spread
_NUMBERING = re.compile(r"^(?:[\d.]*\d[\d.]*|[–—-]+\d+[–—-]+)(?:\s+[–—-]+\d+[–—-]+)?\s+")
_LONGEST_TITLE = 60  # characters
_QUESTIONS = 4


def example_questions(index: Any) -> list[str]:
    """Make at most four questions that passages of an index answer, without a language model.

    Questions such as "What is …?" and "Who is …?" come first, for passages whose first sentence defines their title.
    Questions about sections of documents follow, and then questions about documents.

    Args:
        index: the index; one whose passages cannot be iterated over, such as a remote one, gives no questions.
    """
    if not (hasattr(index, "__iter__") and hasattr(index, "__len__")):
        return []
    end = min(len(index), _LOOKED_AT)
    spread = itertools.islice(iter(index), 0, end, max(1, end // _CANDIDATES))
    asked = {passage.title: _question(passage) for passage in spread if 2 < len(passage.title) <= _LONGEST_TITLE}
    defined = [question for question in asked.values() if "“" not in question]
    of_sections = [question for title, question in asked.items() if " / " in title and "“" in question]
    questions = [each for some in (defined, of_sections, list(asked.values())) for each in _spread(some)]
    return list(dict.fromkeys(questions))[:_QUESTIONS]


def _spread(items: list[str]) -> list[str]:
    return items[:: max(1, len(items) // _QUESTIONS)][:_QUESTIONS]


def _question(passage: Passage) -> str:
    title = passage.title.strip()
    if title.endswith("?"):
        return title
    first = next(iter(split_sentences(passage.text[:400])), "")
    name = re.escape(re.sub(r"\s*\(.*\)$", "", title))
    said = re.match(rf"(?:The |An? )?{name}\s*(\([^)]*\))?,?[^.]{{0,40}}? (is|was|are|were) (?:an?|the|one)\b", first)
    if said is None:
        document, *_, section = title.split(" / ") if " / " in title else (title, "")
        section = _NUMBERING.sub("", section) or section
        return f"What does “{document}” say about “{section}”?" if section else f"What is “{title}” about?"
    person = re.search(r"\b(?:he|she|his|her|born)\b", passage.text, re.I)
    article = "the " if said[0].startswith("The ") and not title.startswith("The ") else ""
    return f"{'Who' if person else 'What'} {said[2]} {article}{title}?"
