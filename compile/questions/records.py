"""Drafted questions, with the results of their checks."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from knowgap.retrieval.passage import Passage

KINDS: dict[str, str] = {
    "one_hop": "one fact of one passage",
    "two_hop": "a fact about something that another passage tells",
}
"""The kinds of questions, and what each asks for."""

DROPPED = {
    "nothing to ask": "the passages give no question of the kind",
    "unreadable": "a reply of the language model could not be read",
    "refused": "the language model refused the request",
    "names the passage": "the question speaks of a passage or text",
    "long answer": "the answer has more than 12 words",
    "tells the answer": "the answer stands in the question",
    "not in the passages": "the answer is not worded as in the passages",
    "unclear": "the question is not understood by itself",
    "not answerable": "its passages do not settle it",
    "other answer": "another answer is found in its passages",
    "one is enough": "one of its two passages settles it",
    "repeated": "it asks the same as an earlier one",
    "lost": "the language model could not be reached; the same command asks again",
}
"""Why a draft is dropped, in the order in which it is checked."""


class Draft(BaseModel, extra="forbid"):
    """A question that was written, and what the checks found.

    Attributes:
        id: an id made from its kind and passages.
        kind: a key of `KINDS`.
        passages: id, title and text of each gold passage.
        question: empty if none was written.
        answer: short; worded as in the passages.
        aliases: the answer in other words, as found in the passages when the question was checked.
        steps: sub-questions with their answers, of questions on two passages.
        from_memory: whether the language model knows the answer without a passage.
        dropped: why it is not kept, a key of `DROPPED`; empty if it is.
    """

    id: str
    kind: str
    passages: list[dict[str, str]]
    question: str = ""
    answer: str = ""
    aliases: list[str] = []
    steps: list[dict[str, str]] = []
    from_memory: bool = False
    dropped: str = ""

    @property
    def gold(self) -> list[Passage]:
        """The passages."""
        return [Passage.from_dict(passage) for passage in self.passages]

    def to_line(self) -> str:
        """The question in the layout of users' own questions, with the mark `from_memory`: a line of JSON Lines."""
        record: dict[str, Any] = {
            "id": self.id,
            "question": self.question,
            "answer": [self.answer, *self.aliases],
            "type": self.kind,
            "gold_ids": [passage["id"] for passage in self.passages],
            "from_memory": self.from_memory,
        }
        return json.dumps(record, ensure_ascii=False) + "\n"
