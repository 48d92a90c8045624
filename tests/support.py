"""What the tests script: a language model that answers by rule, and a retriever that finds by table or by overlap."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.inputs import read_prompt
from knowgap.retrieval.passage import Hit, Passage, rank_hits

Rule = Callable[[tuple[str, ...], dict[str, Any]], "Mapping[str, Any] | str"]


def in_chat_format(values: Mapping[str, Any]) -> str:
    """A reply with these output fields."""
    written = {name: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for name, v in values.items()}
    return "\n\n".join([*(f"[[ ## {n} ## ]]\n{v}" for n, v in written.items()), "[[ ## completed ## ]]"])


class ScriptedEngine:
    """Answers every request by a rule, and keeps what it was asked.

    The rule gets the names of the output fields and the inputs, and returns either a mapping of outputs, written in the
    chat format, or the reply's whole text.
    """

    def __init__(self, rule: Rule):
        self.rule = rule
        self.calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.replies: list[str] = []
        self._lock = threading.Lock()

    def complete(self, request: Request) -> Response:
        text = request.messages[-1].text or ""
        fields, inputs = dict[str, str](), dict[str, Any]()
        with suppress(SignatureNotServed):  # it asks for no fields
            prompt = read_prompt(str(request.system or ""), text)
            as_they_were = re.sub(r"\[ (?=\[[ \\t]*#)", "[", json.dumps(dict(prompt.inputs)))  # marks are made harmless
            fields, inputs = dict(prompt.outputs), json.loads(as_they_were)
        reply = self.reply(text, fields, inputs)
        reply = reply if isinstance(reply, str) else in_chat_format(reply)
        with self._lock:
            self.calls.append((tuple(fields), inputs))
            self.replies.append(reply)
        usage = Usage(input_tokens=len(text) // 4, output_tokens=len(reply) // 4, total_tokens=0)
        message = Message.assistant([TextPart(reply)])
        return Response(id=None, model="scripted", message=message, finish_reason="stop", usage=usage)

    def reply(self, text: str, fields: dict[str, str], inputs: dict[str, Any]) -> Mapping[str, Any] | str:
        return self.rule(tuple(fields), inputs)


def scripted_lm(rule: Rule, *, cache: bool = False) -> tuple[dspy.LM, ScriptedEngine]:
    """A language model that answers by `rule`, and its engine, which keeps the calls."""
    engine = ScriptedEngine(rule)
    return lm_of(engine, cache=cache), engine


def lm_of(engine: Any, *, cache: bool = False) -> dspy.LM:
    """A language model that an engine answers for."""
    return dspy.LM("test/scripted", engine=engine, cache=cache, num_retries=0)


class AroundTheMeter(dspy.LM):
    """A model whose class makes its calls itself, so that nobody counts them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return [in_chat_format({"answer": "Tarn"})]


def by_output(script: Mapping[str, Sequence[Mapping[str, Any] | str] | Rule]) -> Rule:
    """A rule from a table: for each act, named by one of its output fields, its replies in order, or a rule."""
    position = dict.fromkeys(script, 0)
    lock = threading.Lock()

    def rule(outputs: tuple[str, ...], inputs: dict[str, Any]) -> Mapping[str, Any] | str:
        for name, replies in script.items():
            if name in outputs:
                if callable(replies):
                    return replies(outputs, inputs)
                with lock:
                    position[name] += 1
                    return replies[position[name] - 1]
        raise AssertionError(f"the script has no reply for {outputs}: {inputs}")

    return rule


UNREADABLE = "[[ no field in sight"
"""A reply that no adapter can read; each call of a predictor asks for it twice, in the chat and in the JSON format."""


class ProgramEngine(ScriptedEngine):
    """Plays the predictors of a program by their names.

    Each predictor has its replies in order (a list), one reply for every call, or a function of the inputs. A reply is
    a mapping of outputs, the last output alone, or `UNREADABLE`.
    """

    def __init__(self, program: dspy.Module, script: Mapping[str, Any]):
        super().__init__(self._play)
        self.script = {act: iter(replies) if isinstance(replies, list) else replies for act, replies in script.items()}
        self.names = {
            (tuple(predictor.signature.output_fields), frozenset(predictor.signature.input_fields)): name
            for name, predictor in program.named_predictors()
        }
        for act, given in (("shorten", "text"), ("reserved", "passages")):  # which every program may ask
            self.names.setdefault((("answer",), frozenset({"question", given, "style"})), act)

    def _play(self, outputs: tuple[str, ...], inputs: dict[str, Any]) -> Mapping[str, Any] | str:
        act = self.names[outputs, frozenset(inputs)]
        reply = self.script.get(act)
        if callable(reply):
            reply = reply(inputs)
        elif isinstance(reply, Iterator):
            with self._lock:
                reply = next(reply, None)
        assert reply is not None, f"the script has no reply for {act}: {inputs}"
        if reply == UNREADABLE or isinstance(reply, Mapping):
            return reply
        return {**dict.fromkeys(outputs, "because"), outputs[-1]: reply}

    @property
    def acts(self) -> list[str]:
        """The predictors that asked, in order."""
        return [self.names[outputs, frozenset(inputs)] for outputs, inputs in self.calls]

    def asked(self, act: str) -> list[dict[str, Any]]:
        """The inputs of every call of one predictor."""
        return [inputs for name, (_, inputs) in zip(self.acts, self.calls, strict=True) if name == act]


def play(program: dspy.Module, question: str, **script: Any) -> tuple[dspy.Prediction, ProgramEngine]:
    """Ask a program a question, with its predictors scripted."""
    engine = ProgramEngine(program, script)
    with dspy.context(lm=lm_of(engine)):
        return program(question=question), engine


class TableRetriever:
    """Finds what a table says: query → passages, best first; without a table, the same passages for every query.

    A query that is not in the table finds nothing.
    """

    def __init__(self, table: Mapping[str, Sequence[Passage]] | Sequence[Passage]):
        self.table, self.searched = table, []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.searched += queries
        found = [self.table.get(query, ()) if isinstance(self.table, Mapping) else self.table for query in queries]
        return [rank_hits([(passage, 1.0 / n) for n, passage in enumerate(each, start=1)], k) for each in found]


class OverlapRetriever:
    """Finds passages by shared words: deterministic, good enough to test programs with."""

    def __init__(self, passages: Sequence[Passage]):
        self.passages, self.searched = list(passages), []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.searched += [(query, k) for query in queries]
        return [self._one(set(re.findall(r"\w+", query.lower())), k) for query in queries]

    def _one(self, words: set[str], k: int) -> list[Hit]:
        scored = [(p, float(len(words & set(re.findall(r"\w+", str(p).lower()))))) for p in self.passages]
        return rank_hits([(passage, score) for passage, score in scored if score > 0], k)


class TableReranker:
    """Scores (query, text) pairs by a function; keeps what it was asked."""

    name = "table"
    scale = "test"

    def __init__(self, score: Callable[[str, str], float], default_threshold: float = 0.0):
        self.rule, self.default_threshold = score, default_threshold
        self.pairs: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.pairs += pairs
        return [float(self.rule(query, text)) for query, text in pairs]


class TableEntailment(TableReranker):
    """Entailment by a function of (premise, hypothesis); keeps what it was asked."""

    def __init__(self, rule: Callable[[str, str], float] = lambda premise, hypothesis: 1.0):
        super().__init__(rule, 0.5)

    entails = TableReranker.score
