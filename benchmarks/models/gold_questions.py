"""Questions with gold evidence: the sentences that answers rest on, of HotpotQA and 2WikiMultihopQA."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


def normal(text: str) -> str:
    """The text in lower case, with single spaces."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class Fact:
    """A gold sentence, the title of its paragraph, and what a question for it is answered with, if the data say so."""

    title: str
    sentence: str
    answer: str = ""

    def __str__(self) -> str:
        return f"{self.title}: {self.sentence}"

    def stands_in(self, text: str) -> bool:
        """Whether title and sentence stand in a text, apart from case and spacing."""
        return normal(self.sentence) in text and normal(self.title) in text


@dataclass(frozen=True)
class GoldQuestion:
    """A question with its answer and the facts that the answer rests on."""

    question: str
    answer: str
    facts: tuple[Fact, ...]


def read_gold_questions(path: Path) -> list[GoldQuestion]:
    """Questions of a file in the layout of HotpotQA or 2WikiMultihopQA, with their supporting sentences."""
    questions = []
    for record in json.loads(path.read_text(encoding="utf-8")):
        paragraphs = dict(reversed(record["context"]))
        objects = {(normal(subject), normal(text)): text for subject, _, text in record.get("evidences") or ()}
        facts: dict[Fact, None] = {}
        for title, number in record["supporting_facts"]:
            for sentence in paragraphs.get(title, ())[number : number + 1]:
                said = [
                    o for (subject, low), o in objects.items() if subject == normal(title) and low in normal(sentence)
                ]
                facts[Fact(title, sentence.strip(), next(iter(said), ""))] = None
        questions.append(GoldQuestion(record["question"], record["answer"], tuple(facts)))
    return questions
