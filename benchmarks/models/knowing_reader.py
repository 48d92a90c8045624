"""A reader that knows the gold evidence of its questions, but acts from its prompt alone.

It stands in for a capable language model where a method's flow is measured: what a method gets wrong under it was lost
by the method, not by the reader. It knows of each question which sentences its answer rests on (gold facts) and the
answer. In every act it does what an ideal reader could do from the prompt:

- A fact is settled when its sentence stands in the prompt with the title of its paragraph (in a passage, a statement, a
  note or a reasoning step), or when a sub-question that asked for it stands there with the right answer.
- It extracts, notes, lists and judges relevant what settles facts, and nothing else.
- It gives the answer when every fact of the question is settled. Before, it says that it does not know.
- It asks for the next fact that is not settled, in words that stand in the prompt: names that the question or the
  settled facts have told it, and words that the question and the fact share. It never writes a word that it has not
  read, so its queries carry nothing of the evidence that was not found yet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowgap.lms.embedded.inputs import Prompt, strings, write_reply
from knowgap.retrieval.words import content_words, words

UNKNOWN = "unknown"
_NO_EVIDENCE = ("question", "asked", "searched", "queries", "missing", "style", "sub_answers")


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
    """A question with its answer and the facts that the answer rests on, or a part of another such question."""

    question: str
    answer: str
    facts: tuple[Fact, ...]
    whole: GoldQuestion | None = None

    @property
    def root(self) -> GoldQuestion:
        """The question of which it is a part, or itself."""
        return self.whole or self


@dataclass
class _View:
    """A prompt as the reader sees it: the question, what it wants, what is settled, and the words that it has read."""

    question: str
    goal: GoldQuestion
    settled: list[Fact]
    read: set[str]

    @property
    def open(self) -> list[Fact]:
        """Facts that are not settled; those whose title has been read come first."""
        left = [fact for fact in self.goal.facts if fact not in self.settled]
        return sorted(left, key=lambda fact: not self.has_read(fact.title))

    def has_read(self, name: str) -> bool:
        """Whether every word of a name has been read."""
        return set(words(name)) <= self.read


class KnowingReader:
    """Answers the acts of `knowgap.signatures` for questions whose evidence it knows.

    Args:
        questions: the questions with their gold facts; those without any are answered with what is said of questions
            that the reader has no evidence for.
    """

    def __init__(self, questions: Sequence[GoldQuestion]):
        self._goals = {normal(q.question): q for q in questions if q.facts}

    def reply(self, prompt: Prompt, _: str = "") -> str:
        """Reply to one prompt."""
        question = prompt.inputs.get("question")
        texts = [str(question)] if question else _units(prompt.inputs.get("queries"))
        goals = [self._goals[normal(text)] for text in texts if normal(text) in self._goals]
        if not goals:
            return write_reply(prompt, {name: _nothing(name, kind) for name, kind in prompt.outputs.items()})
        goal = replace(goals[0], facts=tuple(dict.fromkeys(fact for each in goals for fact in each.facts)))
        view = self._view(goal, {"question": " ".join(texts), **prompt.inputs})
        return write_reply(prompt, self._outputs(prompt, view))

    def _outputs(self, prompt: Prompt, view: _View) -> dict[str, Any]:
        return {name: self._output(name, prompt, view) for name in prompt.outputs}

    def _view(self, goal: GoldQuestion, inputs: Mapping[str, Any]) -> _View:
        units = [normal(unit) for name, value in inputs.items() if name not in _NO_EVIDENCE for unit in _units(value)]
        solved, answers = set[Fact](), []
        for pair in inputs.get("sub_answers") or ():
            asked, answer = normal(str(pair.get("question", ""))), str(pair.get("answer", ""))
            part = self._goals.get(asked)
            if part is not None and normal(part.answer) == normal(answer):
                solved |= {*part.facts}
            answers.append(answer)
        settled = [fact for fact in goal.facts if fact in solved or any(fact.stands_in(unit) for unit in units)]
        question = str(inputs["question"])
        return _View(question, goal, settled, set(words(" ".join([question, *answers, *map(str, settled)]))))

    def _output(self, name: str, prompt: Prompt, view: _View) -> Any:
        inputs, kind, missing = prompt.inputs, prompt.outputs[name], view.open
        if name == "answer":
            unknown = "" if {"missing", "steps"} & prompt.outputs.keys() else UNKNOWN
            return unknown if missing else view.goal.answer
        if kind == "bool":
            return _verdict(name, view, inputs)
        if name == "confidence":
            top, least = (5, 1) if kind.startswith("int") else (0.95, 0.05)
            return least if missing else top
        if name == "statements":
            new, passages = _unsaid(view, inputs), inputs.get("passages") or ()
            return [{"statement": str(f), "sources": [p["id"] for p in passages if _holds(p, [f])]} for f in new]
        if name == "relevant_ids":
            return [p["id"] for p in inputs.get("passages") or () if _holds(p, view.goal.facts)]
        if name == "reasoning" and "known" in inputs:
            return str(next(iter(_unsaid(view, inputs)), UNKNOWN if missing else view.goal.answer))
        if name in ("questions", "queries"):
            return self._questions(view, prompt)
        if name == "query":
            return next(iter(self._questions(view, prompt)), "")
        if name == "missing":
            return "; ".join(self._questions(view, prompt)) if missing else ""
        if name == "steps":
            lacking = [f"{fact.title if view.has_read(fact.title) else 'a fact'}: MISSING" for fact in missing]
            return [*map(str, view.settled), *lacking]
        nothing = "" if name == "note" else "nothing in the prompt settles a fact of the question"
        return "\n".join(map(str, view.settled)) or nothing

    def _questions(self, view: _View, prompt: Prompt) -> list[str]:
        """Questions for the facts that are open, none asked before; each is remembered with what it asks for."""
        alone = "missing" in prompt.outputs and "queries" not in prompt.outputs
        earlier = [] if alone else [prompt.inputs.get(name) for name in ("asked", "searched")]
        before = {normal(text) for text in [view.question, view.goal.root.question, *_units(earlier)]}
        texts: list[str] = []
        for fact in view.open:
            text = _wording(fact, view)
            if not text or normal(text) in before:
                continue
            part = GoldQuestion(text, _short_answer(fact, view.goal), (fact,), view.goal.root)
            self._goals.setdefault(normal(text), part)
            before.add(normal(text))
            texts.append(text)
        return texts[:4]


class HesitantReader(KnowingReader):
    """A knowing reader that misses the end, as small models do; a prompt has one reply.

    Half of the time, where it could say that the question is answerable, it says that it is not, and asks on.
    """

    def _outputs(self, prompt: Prompt, view: _View) -> dict[str, Any]:
        values = super()._outputs(prompt, view)
        draw = random.Random(repr((sorted(prompt.inputs.items(), key=str), [*prompt.outputs])))
        if view.open or draw.random() >= 0.5:
            return values
        further = [f"{fact.title}: further facts {n}?" for n in range(1, 9) for fact in view.goal.facts]
        asked = _units(prompt.inputs.get("searched"))
        query = next((text for text in further if text not in asked), further[0])
        said: dict[str, Any] = {"answerable": False, "queries": [query]}
        return values | {name: value for name, value in said.items() if name in values}


def _verdict(name: str, view: _View, inputs: Mapping[str, Any]) -> bool:
    """The typed judgements: yes or no."""
    if name == "better":
        before, after = (normal(str(inputs[note])) for note in ("best_note", "new_note"))
        return sum(f.stands_in(after) - f.stands_in(before) for f in view.goal.facts) > 0
    if name == "finished":  # one sentence at a time
        return not view.open and len(_unsaid(view, inputs)) <= 1
    if name == "relevant":
        return bool(view.settled)
    return bool(view.open) if name == "needed" else not view.open


def _holds(passage: Any, facts: Sequence[Fact]) -> bool:
    text = normal("\n".join(_units(passage)))
    return any(fact.stands_in(text) for fact in facts)


def _unsaid(view: _View, inputs: Mapping[str, Any]) -> list[Fact]:
    """Settled facts that what is known so far, or the reasoning, does not hold."""
    said = normal("\n".join(_units(inputs.get("known") or "")))
    return [fact for fact in view.settled if not fact.stands_in(said)]


def _wording(fact: Fact, view: _View) -> str:
    """A question for a fact, from words that were read: its title where that was read, and words that it shares."""
    asked = content_words(view.question)
    if view.has_read(fact.title):
        title = set(words(fact.title))
        shared = [word for word in asked if word in set(words(fact.sentence)) - title]
        rest = shared or [word for word in asked if word not in title][:6]
        return f"{fact.title}: {' '.join(rest)}?"
    own = set(words(str(fact)))
    shared = [word for word in content_words(" ".join([view.question, *map(str, view.settled)])) if word in own]
    return f"{' '.join(shared)}?" if shared else ""


def _short_answer(fact: Fact, goal: GoldQuestion) -> str:
    """What a question for one fact is answered with: as the data say, or the name that leads on, or the final answer.

    A sentence that holds neither name nor answer, or an answer that the question itself offers, is answered with whole.
    """
    sentence = normal(fact.sentence)
    names = [other.title for other in goal.root.facts if other.title != fact.title]
    known = [fact.answer, *(name for name in names if normal(name) in sentence)]
    final = normal(goal.root.answer)
    if final not in normal(goal.root.question) and re.search(rf"(?<!\w){re.escape(final)}(?!\w)", sentence):
        known.append(goal.root.answer)
    return next(filter(None, known), fact.sentence)


def normal(text: str) -> str:
    """The text in lower case, with single spaces."""
    return " ".join(text.casefold().split())


def _nothing(name: str, kind: str) -> Any:
    """An output field of a reply to a question that the reader has no evidence for."""
    if kind.startswith("list"):
        return []
    return {"bool": False, "int": 1, "float": 0.05}.get(kind, UNKNOWN if name == "answer" else "")


def _units(value: Any) -> list[str]:
    """The texts in a value, such as the items of a list; a passage is one text, with its title."""
    if isinstance(value, Mapping):
        if "text" in value:
            return [f"{value.get('title', '')}: {value['text']}"]
        return [text for part in value.values() for text in _units(part)]
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _units(part)]
    return [] if value is None else strings(value)
