"""Watches a `dspy.Module` while it answers a question: its calls, its searches, and the passages its models read.

DSPy reports language models, predictors and `dspy.Retrieve` to its callbacks; this module makes it report
`dspy.ColBERTv2` and `dspy.Embeddings` as well. knowgap's indexes report their searches themselves. Searches in another
way, or in a thread without DSPy's settings, are not seen; predictors called in such a thread count as uncounted calls.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import dspy
from dspy.utils.callback import ACTIVE_CALL_ID, BaseCallback, with_callbacks
from dspy.utils.exceptions import AdapterParseError

from knowgap.errors import shorten
from knowgap.lms.metering import UsageTracker, trackers
from knowgap.programs.passages import knowledge_tokens
from knowgap.programs.replies.text import without_surrogates
from knowgap.programs.trace.recorder import TraceRecorder
from knowgap.programs.trace.steps import Malformed, Retrieved
from knowgap.retrieval.passage import SEARCH_LISTENERS, Hit, Passage

_LOG = logging.getLogger("knowgap")
_SEARCHERS: tuple[Any, ...] = (dspy.Retrieve, dspy.ColBERTv2, dspy.Embeddings)
_BEGINNING = 60  # letters and digits at the start of a passage by which a prompt is searched for it

for _searcher in _SEARCHERS[1:]:
    if not hasattr(_searcher.__call__, "__wrapped__"):  # later versions of DSPy may do this themselves
        _searcher.__call__ = with_callbacks(_searcher.__call__)


class ModuleWatcher(UsageTracker):
    """Records what a module does for one question, and counts the queries that it sees; a tracker for `track_usage`."""

    def __init__(self, recorder: TraceRecorder, module: dspy.Module):
        super().__init__()
        self.searches, self._recorder = 0, recorder
        self._names = {id(predictor): name for name, predictor in module.named_predictors()}
        self._predictors: dict[str, Any] = {}
        self._searching: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        self._chains: dict[str, tuple[int, float, float]] = {}  # calls under way: the chain before, and the start

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Count the known passages that a prompt contains as read."""
        super().on_lm_start(call_id, instance, inputs)
        cost = self._recorder.cost
        self._chains[call_id] = cost.critical_calls, cost.critical_seconds, time.perf_counter()
        prompt = _letters(str([inputs.get("prompt"), inputs.get("messages")]))
        read = [p for p in [*self._recorder.passages.values()] if _letters(str(p.text))[:_BEGINNING] in prompt]
        with self._lock:
            self._recorder.count_read(read)
            cost.knowledge_tokens += knowledge_tokens(read)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Update the longest chain of calls, each of which began after the one before it had ended."""
        super().on_lm_end(call_id, outputs, exception)
        calls, seconds, started = self._chains.pop(call_id, (0, 0.0, 0.0))
        cost = self._recorder.cost
        with self._lock:
            cost.critical_calls = max(cost.critical_calls, calls + 1)
            cost.critical_seconds = max(cost.critical_seconds, seconds + time.perf_counter() - started)

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Note the start of a predictor or a search."""
        super().on_module_start(call_id, instance, inputs)
        if isinstance(instance, dspy.Predict):
            self._predictors[call_id] = instance
        elif isinstance(instance, _SEARCHERS):
            self._searching[call_id] = instance, inputs

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Record a search, or a predictor's reply that could not be read."""
        calls = self._asked.get(call_id, 0)
        super().on_module_end(call_id, outputs, exception)
        predictor = self._predictors.pop(call_id, None)
        if isinstance(exception, AdapterParseError) and predictor is not None:
            problem = without_surrogates(shorten(exception, 300))
            self._recorder.cost.unreadable += calls
            self._recorder.add(Malformed(act=self._names.get(id(predictor), "predictor"), problem=problem))
        searcher, inputs = self._searching.pop(call_id, (None, {}))
        if searcher is not None and exception is None:
            given = {**inputs, **inputs.get("kwargs", {})}
            query = given.get("query", next(iter(inputs.get("args", ())), ""))
            passages = read_passages(outputs)
            k = given.get("k") or getattr(searcher, "k", None) or len(passages)
            hits = [Hit(passage, 1.0 / rank, rank) for rank, passage in enumerate(passages, start=1)]
            self.add_search([str(query)], int(k), [hits])

    def add_search(self, queries: Sequence[str], k: int, found: Sequence[Sequence[Hit]]) -> None:
        """Record a search; the enclosing call, such as that of a `dspy.Retrieve`, is not recorded as well."""
        self._searching.pop(ACTIVE_CALL_ID.get() or "", None)
        step = Retrieved(queries=list(queries), k=k, hits=[[hit.passage.id for hit in hits] for hits in found])
        with self._lock:
            self.searches += len(queries)
            self._recorder.cost.retrievals += len(queries)
            self._recorder.add(step, *(hit.passage for hits in found for hit in hits))


_WARNED: dict[str, str] = {}
"""The first stray call of each module, by the module's name; the warning is given for this call only."""


class StrayCalls(BaseCallback):
    """Counts the calls of a module's predictors in threads without DSPy's settings, where no tracker sees them."""

    def __init__(self, name: str):
        self._name, self._questions, self._calls = name, list[None](), list[str]()

    @contextmanager
    def noticed(self, module: dspy.Module) -> Iterator[None]:
        """Count such calls while the module answers a question."""
        for _, predictor in module.named_predictors():
            if self not in predictor.callbacks:
                predictor.callbacks.append(self)
        self._questions.append(None)
        try:
            yield
        finally:
            self._questions.pop()

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Count a call of a predictor without a tracker, and warn of the first one."""
        if not self._questions or trackers():
            return
        self._calls.append(call_id)
        if _WARNED.setdefault(self._name, call_id) == call_id:
            _LOG.warning(
                "%s calls its model in threads that lack DSPy's settings, where calls are not counted: use "
                "dspy.Parallel, or contextvars.copy_context().run in the thread",
                self._name,
            )

    def take(self) -> int:
        """The number of calls since the last `take`; of concurrent questions, the first to take gets them all."""
        calls = len(self._calls)
        del self._calls[:calls]
        return calls


def _tell(queries: Sequence[str], k: int, found: list[list[Hit]]) -> None:
    for callback in dspy.settings.callbacks or ():
        if isinstance(callback, ModuleWatcher):
            callback.add_search(queries, k, found)


SEARCH_LISTENERS.append(_tell)


def read_passages(found: Any) -> list[Passage]:
    """Read passages from the output of a DSPy retriever: texts, or mappings with a `text` or `long_text`.

    The id is the mapping's `id` or `pid`, or the passage's number in the corpus (`indices`), else a hash of the text.
    Text of the form `title | text`, which `dspy.ColBERTv2` returns, is split at the bar.
    """
    numbers: Sequence[Any] = ()
    if isinstance(found, dspy.Prediction):
        numbers, found = found.get("indices") or found.get("pid") or (), found.get("passages")
    items = cast("Sequence[Any]", found if isinstance(found, (list, tuple)) else ())
    passages: list[Passage] = []
    for place, item in enumerate(items):
        fields = item if isinstance(item, Mapping) else {"text": item}
        text = fields.get("text") or fields.get("long_text")
        if isinstance(item, Passage) or not isinstance(text, str):
            passages += [item] if isinstance(item, Passage) else []
            continue
        number = fields.get("id", fields.get("pid", numbers[place] if place < len(numbers) else None))
        title, bar, rest = text.partition(" | ")
        made = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:10]
        passages.append(Passage(made if number is None else str(number), *((title, rest) if bar else ("", text))))
    return passages


def _letters(text: str) -> str:
    """The letters and digits of a text, without the escapes for line breaks and tabs that JSON and Python write."""
    return re.sub(r"(?:\\+[ntr])|[\W_]+", "", text)
