"""A reader that knows the gold evidence of its questions, but acts from its prompt alone.

It stands in for a capable language model where a method's flow is measured: what a method gets wrong under it was lost
by the method, not by the reader. It knows of each question which sentences its answer rests on (gold facts) and the
answer. In every act it does what an ideal reader could do from the prompt:

- A fact is settled when its sentence stands in the prompt (in a passage, a statement, a note or a reasoning step), or
  when a sub-question that asked for it stands there with the right answer.
- It extracts, notes, lists and judges relevant what settles facts, and nothing else.
- It gives the answer when every fact of the question is settled. Before, it says that it does not know.
- It asks for the next fact that is not settled, in words that stand in the prompt: names that the question or the
  settled facts have told it, and words that the question and the fact share. It never writes a word that it has not
  read, so its queries carry nothing of the evidence that was not found yet.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.prompts import Prompt, read_prompt, write_reply

__all__ = ["Fact", "GoldQuestion", "KnowingReader", "read_gold_questions"]

UNKNOWN = "unknown"
_EVIDENCE = (
    "passages",
    "passage",
    "known",
    "note",
    "best_note",
    "new_note",
    "text",
    "reasoning",
    "assessment",
    "found",
)
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been by did do does for from had has have he her his in is it its of on or she that the "
        "their they this to was were which who whom whose what when where how with",
    )
)


@dataclass(frozen=True)
class Fact:
    """A gold sentence and the title of its paragraph."""

    title: str
    sentence: str

    def stands_in(self, text: str) -> bool:
        """Whether the sentence stands in a text, apart from case and spacing."""
        return _normal(self.sentence) in text


@dataclass(frozen=True)
class GoldQuestion:
    """A question with its answer and the facts that the answer rests on."""

    question: str
    answer: str
    facts: tuple[Fact, ...]


@dataclass
class _Goal:
    """What a question or sub-question wants: facts of a gold question, and the answer that they give together."""

    root: GoldQuestion
    facts: tuple[Fact, ...]
    answer: str


@dataclass
class _View:
    """A prompt as the reader sees it: the goal, the evidence, what is settled, and the words that it has read."""

    goal: _Goal
    evidence: str
    settled: list[Fact]
    words: set[str] = field(default_factory=set)

    @property
    def open(self) -> list[Fact]:
        """Facts that are not settled; those whose title has been read come first."""
        left = [fact for fact in self.goal.facts if fact not in self.settled]
        return sorted(left, key=lambda fact: not self.has_read(fact.title))

    def has_read(self, name: str) -> bool:
        """Whether every word of a name has been read."""
        return set(_words(name)) <= self.words

    @property
    def complete(self) -> bool:
        return not self.open


class KnowingReader:
    """A DSPy engine that answers the acts of `knowgap.signatures` for questions whose evidence it knows.

    Args:
        questions: the questions with their gold facts.
    """

    def __init__(self, questions: Sequence[GoldQuestion]):
        self._lock = threading.Lock()
        self._goals = {_normal(q.question): _Goal(q, q.facts, q.answer) for q in questions}
        self.shown: dict[str, set[str]] = {q.question: set() for q in questions}

    def complete(self, request: Request) -> Response:
        """One reply to one request."""
        system = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system or ())
        user = next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
        prompt = read_prompt(system, user)
        values = self._act(prompt)
        reply = write_reply(prompt, {name: values.get(name, "") for name in prompt.outputs})
        usage = Usage(input_tokens=len(user.split()), output_tokens=len(reply.split()))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )

    def close(self) -> None:
        """Nothing is held open."""

    def _act(self, prompt: Prompt) -> dict[str, Any]:
        """The output fields of an act, by their names."""
        inputs, wanted = prompt.inputs, prompt.outputs
        goal = self._goals.get(_normal(str(inputs.get("question", ""))))
        if goal is None:
            return _knows_nothing(wanted)
        view = _view(goal, inputs)
        self._keep_shown(goal, inputs)
        values: dict[str, Any] = {}
        for name in wanted:
            values[name] = self._output(name, wanted, prompt, view)
        return values

    def _output(self, name: str, wanted: Mapping[str, str], prompt: Prompt, view: _View) -> Any:
        inputs = prompt.inputs
        facts = [f"{fact.title}: {fact.sentence}" for fact in view.settled]
        if name == "answer":
            if "missing" in wanted and not view.complete:
                return "unanswerable"
            if "reasoning" in wanted and "known" in inputs and len(_unsaid(view, inputs)) > 1:
                return ""  # the next sentence does not arrive at the answer yet
            return view.goal.answer if view.complete else UNKNOWN if "known" not in inputs else ""
        if name in ("answerable", "knows", "needed", "relevant", "better", "finished"):
            return self._verdict(name, view, inputs)
        if name == "confidence":
            top, least = (5, 1) if wanted[name].startswith("int") else (0.95, 0.05)
            return top if view.complete else least
        if name == "statements":
            return _statements(view, inputs)
        if name == "relevant_ids":
            return [p["id"] for p in inputs.get("passages") or () if _holds(p, view.goal.facts)]
        if name in ("note", "notes"):
            return "\n".join(facts)
        if name in ("summary", "snippet"):
            return " ".join(fact.sentence for fact in view.settled) or "irrelevant"
        if name == "reasoning" and "known" in inputs:
            return (_unsaid(view, inputs) or [view.goal.answer if view.complete else UNKNOWN])[0]
        if name in ("questions", "queries"):
            return self._questions(view, inputs, prompt.system)
        if name == "query":
            return next(iter(self._questions(view, inputs, prompt.system)), "")
        if name == "missing":
            return "" if view.complete else "; ".join(self._questions(view, {}, "")) or "the next fact"
        if name == "passage":
            return UNKNOWN if "queries" in inputs else ""
        return "\n".join(facts) or "nothing in the prompt settles a fact of the question"

    def _verdict(self, name: str, view: _View, inputs: Mapping[str, Any]) -> bool:
        """The typed judgements: yes or no."""
        if name == "better":
            before, after = (_settled(view.goal.facts, _normal(str(inputs[n]))) for n in ("best_note", "new_note"))
            return len(after) > len(before)
        if name == "needed":
            return bool(view.open)
        if name == "relevant":
            return bool(view.settled)
        if name == "finished":
            return view.complete and len(_unsaid(view, inputs)) <= 1
        return view.complete

    def _questions(self, view: _View, inputs: Mapping[str, Any], system: str) -> list[str]:
        """Questions for the facts that are open, none asked before; each is remembered with what it asks for."""
        asked = {_normal(str(text)) for name in ("asked", "searched") for text in inputs.get(name) or ()}
        asked.add(_normal(view.goal.root.question))
        texts: list[str] = []
        decomposing = "passages" not in inputs and "known" not in inputs and "note" not in inputs and "#1" in system
        for fact in view.open:
            reference = _earlier(fact, view) if decomposing else 0
            text = _wording(fact, view, f"#{reference}" if reference else "")
            goal = _Goal(view.goal.root, (fact,), _short_answer(fact, view.goal))
            filled = _wording(fact, view, fact.title) if reference else text
            if text and _normal(text) not in asked:
                with self._lock:
                    self._goals.setdefault(_normal(filled), goal)
                asked.add(_normal(text))
                texts.append(text)
        return texts[:4]

    def _keep_shown(self, goal: _Goal, inputs: Mapping[str, Any]) -> None:
        listed = [str(p.get("title", "")) for p in inputs.get("passages") or () if isinstance(p, Mapping)]
        single = str(inputs.get("passage") or "")
        titles = {f.title for f in goal.root.facts if f.title in listed or single.startswith(f"{f.title}: ")}
        with self._lock:
            self.shown[goal.root.question] |= titles


def _view(goal: _Goal, inputs: Mapping[str, Any]) -> _View:
    texts = [_text(inputs[name]) for name in _EVIDENCE if name in inputs]
    evidence = _normal("\n".join(texts))
    settled = _settled(goal.facts, evidence)
    for pair in inputs.get("sub_answers") or ():
        if isinstance(pair, Mapping):
            for fact in goal.facts:
                if fact not in settled and _normal(_short_answer(fact, goal)) == _normal(str(pair.get("answer", ""))):
                    settled.append(fact)
    answers = " ".join(str(pair.get("answer", "")) for pair in inputs.get("sub_answers") or () if pair)
    words = set(_words(" ".join([str(inputs.get("question", "")), answers, *(f.sentence for f in settled)])))
    words |= set(_words(" ".join(fact.title for fact in settled)))
    return _View(goal, evidence, settled, words)


def _settled(facts: Sequence[Fact], evidence: str) -> list[Fact]:
    return [fact for fact in facts if fact.stands_in(evidence)]


def _holds(passage: Any, facts: Sequence[Fact]) -> bool:
    text = _normal(_text(passage))
    return any(fact.stands_in(text) for fact in facts)


def _statements(view: _View, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    passages = [p for p in inputs.get("passages") or () if isinstance(p, Mapping)]
    statements = []
    for fact in view.settled:
        sources = [p["id"] for p in passages if fact.stands_in(_normal(_text(p)))]
        statements.append({"statement": f"{fact.title}: {fact.sentence}", "sources": sources})
    return statements


def _unsaid(view: _View, inputs: Mapping[str, Any]) -> list[str]:
    """Settled facts that the reasoning so far does not hold, in words."""
    said = _normal(_text(inputs.get("known") or ""))
    return [f"{fact.title}: {fact.sentence}" for fact in view.settled if not fact.stands_in(said)]


def _wording(fact: Fact, view: _View, name: str = "") -> str:
    """A question for a fact, from words that were read: its title where that was read, and words that it shares."""
    shared = [word for word in _ordered(view.goal.root.question) if word in set(_words(fact.sentence))]
    if name or view.has_read(fact.title):
        title = name or fact.title
        rest = [word for word in shared if word not in set(_words(fact.title))]
        open_words = [w for w in _ordered(view.goal.root.question) if w not in set(_words(fact.title))]
        return f"{title}: {' '.join(rest or open_words[:6])}?"
    own = set(_words(f"{fact.title} {fact.sentence}"))
    words = [word for word in _ordered(f"{view.goal.root.question} {_known_text(view)}") if word in own]
    return f"{' '.join(dict.fromkeys(words))}?" if words else ""


def _known_text(view: _View) -> str:
    return " ".join(f"{fact.title} {fact.sentence}" for fact in view.settled)


def _earlier(fact: Fact, view: _View) -> int:
    """The number, from 1, of the open fact whose sentence names this fact's title; 0 where the question names it."""
    if view.has_read(fact.title):
        return 0
    for number, other in enumerate(view.open, start=1):
        if other is not fact and _normal(fact.title) in _normal(other.sentence):
            return number
    return 0


def _short_answer(fact: Fact, goal: _Goal) -> str:
    """What a question for one fact is answered with: the name that leads on, the final answer, or the sentence."""
    for other in goal.root.facts:
        if other.title != fact.title and _normal(other.title) in _normal(fact.sentence):
            return other.title
    return goal.root.answer if _normal(goal.root.answer) in _normal(fact.sentence) else fact.sentence


def _knows_nothing(wanted: Collection[str]) -> dict[str, Any]:
    """The reply to a question that the reader has no evidence for."""
    empty: dict[str, Any] = {"answer": UNKNOWN, "passage": UNKNOWN, "knows": False, "relevant": False, "better": False}
    lists = ("statements", "questions", "queries", "relevant_ids")
    return {name: [] if name in lists else empty.get(name, "") for name in wanted}


def _text(value: Any) -> str:
    """All strings in a value, one to a line."""
    if isinstance(value, Mapping):
        return "\n".join(_text(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return "\n".join(_text(part) for part in value)
    return str(value)


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _ordered(text: str) -> list[str]:
    """Content words of a text, each once, in their order."""
    return [word for word in dict.fromkeys(_words(text)) if word not in _FUNCTION_WORDS]


def read_gold_questions(path: Path) -> list[GoldQuestion]:
    """Questions of a file in the layout of HotpotQA or 2WikiMultihopQA, with their supporting sentences."""
    return list(_read_supporting_facts(json.loads(path.read_text(encoding="utf-8"))))


def _read_supporting_facts(records: Sequence[Mapping[str, Any]]) -> Iterator[GoldQuestion]:
    for record in records:
        paragraphs = dict(reversed(record["context"]))
        facts = [
            Fact(title, paragraphs[title][number].strip())
            for title, number in record["supporting_facts"]
            if number < len(paragraphs.get(title, ()))
        ]
        yield GoldQuestion(record["question"], record["answer"], tuple(dict.fromkeys(facts)))
