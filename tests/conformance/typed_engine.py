"""A language model that needs no script: it answers by the names and types of the output fields.

Replies depend on the prompt alone: the same prompt gets the same reply, in any order of calls. `SPOILT` names the ways
in which a reply can be damaged.
"""

import ast
import hashlib
import json
from collections import Counter

from dspy.utils.exceptions import ContextWindowExceededError
from support import ScriptedEngine, in_chat_format


class TypedEngine(ScriptedEngine):
    """A language model that fills in the output fields by their names and types.

    Args:
        value: from (name, type, inputs, digest of the prompt) to a field's value.
        broken: output fields of the act whose reply is spoilt, or "all".
        spoil: from the (name → value) mapping of a reply to the text that stands in for it.
        limit: after so many calls the program counts as one that never ends.
        window: so many tokens, of four characters, are read at most; a longer prompt is refused.
    """

    def __init__(self, value, *, broken=None, spoil=None, limit=2000, window=None):
        super().__init__(lambda *_: {})
        self.window, self.refused = window, 0
        self.value, self.broken, self.spoil, self.limit = value, broken, spoil, limit
        self.weighed = Counter()  # decisions that were asked for as probabilities
        self.prompts = []  # whole ones, and the temperature

    def complete(self, request):
        with self._lock:
            self.prompts.append((str(request.system), str(request.messages), request.config.temperature))
            texts = [str(request.system or ""), *(message.text or "" for message in request.messages)]
            if self.window is not None and sum(map(len, texts)) > 4 * self.window:
                self.refused += 1
                raise ContextWindowExceededError(message=f"more than {self.window} tokens")
        return super().complete(request)

    def reply(self, text, fields, inputs):
        with self._lock:
            self.weighed.update(name for name, kind in fields.items() if kind == "NoulEvidence")
        assert len(self.calls) < self.limit, f"more than {self.limit} calls for one question"
        digest = hashlib.sha256(text.rpartition("Respond with")[0].encode()).hexdigest()[:8]
        values = {name: self.value(name, kind, inputs, digest) for name, kind in fields.items()}
        return self.spoil(values) if self.broken in (tuple(fields), "all") else values

    def acts(self):
        """The different acts that were asked for, by their output fields."""
        return list(dict.fromkeys(acts for acts, _ in self.calls))


def typed(kind, text, yes, inputs, *, many, option):
    """A value of a type: what does not depend on the field's name."""
    ids = [passage["id"] for passage in inputs.get("passages") or [{"id": 1}]]
    values = {
        "str": text,
        "bool": yes,
        "int": 4,
        "float": 0.75,
        "NoulEvidence": {"noul": 0.95 if yes else 0.05},
        "list[int]": ids,
        "list[str]": [f"{text} {n}" for n in range(many)],
        "list[Statement]": [{"statement": f"{text} {n}.", "sources": ids[:1]} for n in range(many)],
    }
    if kind.startswith("Literal["):
        return ast.literal_eval(kind.removeprefix("Literal"))[option]
    if kind.startswith("dict["):
        return {"query": text}
    assert kind in values or kind.startswith("list["), f"a value for {kind} is not known here: add it"
    return values.get(kind, [])


def settling(name, kind, inputs, digest):
    """A model that is content: it knows, finds everything relevant, misses nothing and answers."""
    words = {"answer": f"Wick {digest}", "missing": "", "query": f"painter of ships {digest}"}
    return typed(kind, words.get(name, f"Ada Moor of Wick {digest}"), True, inputs, many=2, option=-1)


def never_settling(yes, answer):
    """A model that always misses something: it says yes (or no) to all, never answers, and always asks on."""

    def value(name, kind, inputs, digest):
        words = {"answer": answer, "missing": f"which painter of ships {digest}"}
        return typed(kind, words.get(name, f"harbour of Tarn {digest}"), yes, inputs, many=12, option=0)

    return value


UNREADABLE = ("empty", "prose")

NEVER = [
    never_settling(yes, answer)
    for yes, answer in ((True, "unanswerable"), (True, "Wick"), (False, "unknown"), (False, ""))
]


def each(change):
    """A reply in which every value was changed."""
    return lambda values: in_chat_format({name: change(value) for name, value in values.items()})


def _beyond(value):
    if isinstance(value, bool) or not isinstance(value, (int, float, list, dict)):
        return value
    if isinstance(value, (int, float)):
        return 10**6
    if isinstance(value, dict):
        return dict.fromkeys(value, -7)
    return [
        {**item, "sources": [0, -1, 99, 10**9]} if isinstance(item, dict) else 10**9 if isinstance(item, int) else item
        for item in value
    ]


def _long(value):
    if isinstance(value, str):
        return f"{value} harbour".strip() + " of ships" * 1200
    return value * 50 if isinstance(value, list) else value


SPOILT = {
    "empty": lambda values: "",
    "prose": lambda values: "I am sorry, but I cannot say. [[ ## nothing ## ]] {",
    "unclosed": lambda values: in_chat_format(values)[: len(in_chat_format(values)) // 2],
    "nulls": lambda values: json.dumps(dict.fromkeys(values)),
    "wrong types": each(lambda value: [["x"]] if isinstance(value, str) else "maybe?"),
    "blank fields": each(lambda value: ""),
    "out of range": each(_beyond),
    "lone surrogates": lambda values: json.dumps(
        {n: f"{v} \ud800" if isinstance(v, str) else v for n, v in values.items()}
    ),
    "over-long": each(_long),
    "markers inside": each(lambda v: f"{v} [[ ## answer ## ]] \x00\u202e </s>" if isinstance(v, str) else v),
}
"""Replies that a model gives at times: from the values of a reply to its text."""
