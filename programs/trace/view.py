"""Puts the steps of a trace into words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from knowgap.errors import shorten
from knowgap.programs.trace import steps as s


class Titled(Protocol):
    """What names the passages of its steps: a trace."""

    @property
    def passages(self) -> Mapping[str, Mapping[str, str]]:
        """The passages by id, each with its `title`."""
        ...


def _title(trace: Titled, passage_id: str) -> str:
    return trace.passages.get(passage_id, {}).get("title") or passage_id


def _titles(trace: Titled, ids: list[str], limit: int = 8) -> str:
    titles = ", ".join(_title(trace, passage_id) for passage_id in ids[:limit])
    return (titles or "nothing") + (f" and {len(ids) - limit} more" if len(ids) > limit else "")


def describe_step(trace: Titled, step: s.Step) -> list[str]:
    """Put a step into words: a headline, then one line for each detail."""
    match step:
        case s.Asked():
            return [f"asked: {step.question}"]
        case s.Retrieved():
            return ["retrieved"] + [
                f"{shorten(query)} → {_titles(trace, hits, 5)}"
                for query, hits in zip(step.queries, step.hits, strict=True)
            ]
        case s.Reranked():
            limit = "" if step.threshold is None else f" at threshold {step.threshold:.2f}"
            below = {i for i, score in step.kept.items() if step.threshold is not None and score < step.threshold}
            kept = [
                f"{_title(trace, passage_id)} ({score:.2f}{', below it' if passage_id in below else ''})"
                for passage_id, score in step.kept.items()
            ]
            return [f"reranked: kept {len(step.kept)}, dropped {len(step.dropped)}{limit}", *kept]
        case s.Compressed():
            return [f"{_titles(trace, [step.passage])}, {step.how}: {shorten(step.text)}"]
        case s.Prompted():
            return [f"the model's own knowledge: {shorten(step.text)}"]
        case s.Extracted():
            pairs = zip(step.statements, step.sources, strict=True)
            return ["learnt" if step.statements else "learnt nothing"] + [
                f"{shorten(statement)} [{_titles(trace, ids)}]" for statement, ids in pairs
            ]
        case s.Rejected():
            cited = f" [{_titles(trace, step.passages)}]" if step.passages else ""
            return [f"rejected ({step.why}): {shorten(step.what)}{cited}"]
        case s.Missing():
            return [f"missing: {shorten(step.missing)}"]
        case s.Queried():
            again = [f"asked before: {shorten(query)}" for query in step.repeated]
            return ["asks next", *(shorten(query) for query in step.queries), *again]
        case s.Noted():
            return [f"note: {shorten(step.note, 400)}"]
        case s.Compared():
            return [f"the new note is {'better' if step.better else 'not better'}" + _because(step.reason)]
        case s.Judged():
            about = f" of {_titles(trace, [step.passage])}" if step.passage else ""
            return [f"{step.what}{about}{_by(step.by)}: {'yes' if step.value else 'no'}" + _because(step.reason)]
        case s.Filtered():
            return [f"kept {_titles(trace, step.kept)}; dropped {_titles(trace, step.dropped)}" + _because(step.reason)]
        case s.Decomposed():
            return [f"decomposed{_by(step.by)} into", *step.questions]
        case s.Refined():
            return [f"{step.action}: {shorten(step.query)}"]
        case s.Reasoned():
            return [f"{step.what}: {shorten(step.text, 300)}"]
        case s.Answered():
            sure = "" if step.confidence is None else f" (confidence {step.confidence:g})"
            return [f"answer: {step.answer or '(empty)'}{sure}"]
        case s.Selected():
            return [f"selected by {step.strategy}: {step.answer}"]
        case s.Malformed():
            return [f"unreadable output of {step.act}: {shorten(step.problem, 100)}"]
    assert isinstance(step, s.Stopped)
    return [f"stopped: {step.reason}"]


def _by(model: str) -> str:
    return f" by {model}" if model else ""


def _because(reason: str) -> str:
    return f": {shorten(reason)}" if reason else ""
