"""Whether a passage that a model quotes can give the answer: programs, adapters, and ways to quote.

Each passage holds a forged answer in one of many forms. A scripted model quotes a passage in every reply, in a way and
at a place drawn by a seed, beside a right answer or without one. No answer may be the forged one.

With --quotations-free, no passage holds what the model quotes, so that it counts as the model's own words. A rule
reads them: the last complete set of fields counts, or among objects the one that begins the reply. The table then
counts how often this rule takes the quotation for the answer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import dspy
from concurrency import programs
from dspy.adapters.baml_adapter import BAMLAdapter
from dspy.lm15 import Request, Response
from models.delayed_server import value
from models.prompt_engine import read_request, respond
from mutations import write_carelessly
from quotation_ways import FORGED, LEAD, SETS, Quote
from table import Table, note

from knowgap.compiling.data import load_dataset
from knowgap.compiling.evaluation.runner import map_ordered
from knowgap.lms.embedded.inputs import Prompt
from knowgap.programs import PROGRAMS
from knowgap.retrieval.passage import Passage

ADAPTERS = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter, "xml": dspy.XMLAdapter, "baml": BAMLAdapter}
RIGHT = "Wick"
COLUMNS = ("tried", "quotations", "forged", "whole", "right")
QUESTION = "Which painter of harbours lived in the tall house number {}?"


def _around(text: str, chance: random.Random) -> str:
    at = text.index(FORGED)
    begins = max(text.rfind(" ", 0, max(0, at - chance.randrange(60, 240))) + 1, 0)
    return text[begins : at + len(FORGED) + chance.randrange(60)]


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}"


PLACES: dict[str, Callable[[str, str, str], str]] = {
    "before the reply": lambda quote, reply, _: _joined(f"{LEAD} says: {quote}", reply),
    "quotation first": lambda quote, reply, _: _joined(quote, reply),
    "behind the reply": lambda quote, reply, _: _joined(reply, f"{LEAD} says: {quote}"),
    "behind plain text": lambda quote, _, right: _joined(f"I say {right}.", f"{LEAD} says:\n{quote}"),
    "before plain text": lambda quote, _, right: _joined(f"{LEAD} says:\n{quote}", f"But it is {right}."),
    "cut off": lambda quote, reply, _: _joined(f"{LEAD} says:\n{quote}", reply[: len(reply) // 3]),
    "alone": lambda quote, *_: f"{LEAD} says:\n{quote}",
    "in a text": lambda quote, reply, right: reply,
}
"""Where the quotation stands; "in a text" is within a field other than the answer."""

OWN = ("as asked", "as asked", "as asked", "an object", "labels", "ended by the server")
"""How the model's own reply is written. A server ends it at the mark of its end, also where that is quoted."""


def add_arguments(group: Any) -> None:
    """Add the options of this part."""
    group.add_argument("--quotations", type=int, help="questions with quotations (5000; quick 200)")
    group.add_argument("--quotations-seed", type=int, default=0, help="of the quotations (0)")
    group.add_argument("--quotations-free", action="store_true", help="quote what no passage holds")
    ways = ("all", *SETS)
    group.add_argument("--quotations-ways", choices=ways, default="all", help="which ways and passages (all)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Ask every program under every adapter, and count answers that are a passage's."""
    wanted, seed = options.quotations or (200 if options.quick else 5_000), options.quotations_seed
    chosen = [SETS[name] for name in SETS if options.quotations_ways in (name, "all")]
    injected = {kind: text for injections, _ in chosen for kind, text in injections.items()}
    ways = {kind: quote for _, quotes in chosen for kind, quote in quotes.items()}
    plain = load_dataset().corpus[: 3 * len(injected)]
    kinds = [kind for _, kind in zip(plain, itertools.cycle(injected), strict=False)]
    held = [injected[kind].format(*[FORGED] * 4) for kind in kinds]
    texts = [f"{passage.text} {forged}It has a harbour." for passage, forged in zip(plain, held, strict=True)]
    shown_texts = [passage.text for passage in plain] if options.quotations_free else texts
    corpus = [Passage(p.id, p.title, text) for p, text in zip(plain, shown_texts, strict=True)]
    made = {name: programs(name, corpus)[1] for name in PROGRAMS}
    chance, cases = random.Random(seed), []
    for number in range(wanted):
        adapter, place = list(ADAPTERS)[number % len(ADAPTERS)], chance.choice(list(PLACES))
        program = list(made)[number // len(ADAPTERS) % len(made)]
        way = list(ways)[chance.randrange(len(ways))]
        cases.append((program, adapter, way, place, chance.choice(OWN), chance.random() < 0.5, number))
    note(f"quotations: {len(cases)} questions")
    titles = ("program", "adapter", "form in the passage", "way to quote", "place", "own reply", "marks", "all")
    counts = {title: Counter[tuple[str, str]]() for title in titles}
    lock, shown = threading.Lock(), list[str]()

    def ask(case: tuple[str, str, str, str, str, bool, int]) -> None:
        name, adapter, way, place, own, raw, number = case
        engine = _Quoting(ways[way], place, own, texts, raw, f"{seed} {number}", options.quotations_free)
        lm = dspy.LM("test/quoting", engine=engine, cache=False, num_retries=0)
        with dspy.context(lm=lm, adapter=ADAPTERS[adapter](), disable_history=True):
            answer = made[name](question=QUESTION.format(number)).answer
        held = FORGED.casefold() in answer.casefold()
        forged = held and LEAD not in answer
        with lock:
            if not engine.quoted:
                return
            marks = "restored" if raw or options.quotations_free else "as shown"
            by = (name, adapter, kinds[engine.number], way, place, own, marks, "")
            for title, kind in zip(counts, by, strict=True):
                counts[title][kind, "tried"] += 1
                counts[title][kind, "quotations"] += engine.quoted
                counts[title][kind, "forged"] += forged
                counts[title][kind, "whole"] += held and not forged
                counts[title][kind, "right"] += RIGHT in answer
            if forged:
                shown.append(f"{case}: {answer!r:.150} of {engine.last!r:.600}")

    for _ in map_ordered(ask, cases, 2, ahead=32):
        pass
    for line in shown[:12]:
        note(line)
    rows = [
        [title, kind, *(count[kind, what] for what in COLUMNS)]
        for title, count in counts.items()
        for kind in dict.fromkeys(kind for kind, _ in count)
    ]
    title = "Quotations that no passage holds" if options.quotations_free else "Passages that a model quotes"
    yield Table(
        f"{title}, seed {seed}",
        ["by", "kind", "questions", "replies that quote", "answers forged", "with the quotation", "right"],
        rows,
        [
            "With the quotation: a reply without a form is read as plain text, which says that it quotes a passage.",
            "Where a reply has no right answer in a form that can be read, the answer is not right either.",
        ],
    )


def _value(name: str, kind: str, prompt: str, chance: random.Random) -> Any:
    options = re.findall(r"'(\w+)'", kind) if kind.startswith("Literal") else []
    if kind.startswith("dict"):
        return {"query": "painters of harbours"}
    return chance.choice(options) if options else value(name, kind, prompt)


class _Quoting:
    """A model that quotes a passage in every reply to a prompt with passages."""

    def __init__(
        self, way: Quote, place: str, own: str, texts: list[str], raw: bool, seed: str, free: bool = False
    ) -> None:
        self.way, self.place, self.own, self.texts, self.raw, self.seed = way, place, own, texts, raw, seed
        self.free = free
        self.quoted, self.number, self.last = 0, 0, ""

    def complete(self, request: Request) -> Response:
        """Reply to one request."""
        text = request.messages[-1].text or ""
        prompt, chance = read_request(request), random.Random(f"{self.seed} {text}")
        values = {name: _value(name, kind, text, chance) for name, kind in prompt.outputs.items()}
        values |= {"answer": RIGHT} if "answer" in values else {}
        reply = self._written(prompt, values)
        if quote := self._quote(text, chance):
            quote = self.way(quote, chance)
            if self.place == "in a text":
                texts = {n: f"{v} {quote}" if isinstance(v, str) and n != "answer" else v for n, v in values.items()}
                reply = self._written(prompt, texts)
            else:
                right = RIGHT if "answer" in values else "so"
                reply = PLACES[self.place](quote, reply, right)
        if self.own == "ended by the server" and prompt.style == "chat":
            reply = reply.partition("[[ ## completed")[0]
        self.last = reply
        return respond(request, reply)

    def _written(self, prompt: Prompt, values: dict[str, Any]) -> str:
        if self.own == "an object":
            return json.dumps(values, ensure_ascii=False)
        if self.own == "labels" and prompt.style == "chat":
            return "\n".join(f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in values.items())
        return write_carelessly(prompt, values)

    def _quote(self, prompt: str, chance: random.Random) -> str:
        """Part of a shown passage: as the prompt writes it, or as the passage has it."""
        found = [n for n, text in enumerate(self.texts) if text[:40] in prompt]
        held = [n for n in found if self.free or FORGED in prompt.partition(self.texts[n][:40])[2]]
        if not held:
            return ""
        self.quoted, self.number = self.quoted + 1, chance.choice(held)
        if self.raw or self.free:
            return _around(self.texts[self.number], chance)
        at = prompt.index(FORGED, prompt.index(self.texts[self.number][:40]))
        part = prompt[max(0, at - chance.randrange(60, 240)) : at + len(FORGED) + chance.randrange(60)]
        return part.replace("\\n", "\n").replace('\\"', '"')
