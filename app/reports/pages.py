"""Pages for the browser: evaluations, and questions to look through; each holds all its data and loads nothing."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluations
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.questions.writing import KINDS, Draft
from knowgap.reports.tables import score_tables
from knowgap.storage.files import write_file

_SPLITS = ("test", "dev", "train")
_MOST_QUESTIONS = 500

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Question:
    """A question with its records by label of the evaluation, and its scores by the main metric.

    `kinds` are the filters that it passes; `difference` is the second minus the first score if there are two, or 0.
    """

    records: dict[str, QuestionRecord]
    scores: list[float | None]
    kinds: list[str]
    difference: float


def render_report(evaluations: Evaluations) -> str:
    """Render evaluations as an HTML page, in the groups of `group_evaluations`."""
    names = list(dict.fromkeys(e.provenance.program or label for label, e in evaluations.items()))
    return _render(
        "evaluation.html.jinja",
        title=f"Evaluation of {', '.join(names)}",
        origin=next((e.provenance for e in evaluations.values()), Provenance()),
        groups=[_group(f"group-{n}", each) for n, each in enumerate(group_evaluations(evaluations))],
    )


def group_evaluations(evaluations: Evaluations) -> list[Evaluations]:
    """Group evaluations by split and questions, those on test questions first.

    In each group, the others are compared with the one that has "before" in its label, or with the first.
    """
    groups: dict[tuple[str, str], Evaluations] = {}
    for label, evaluation in sorted(evaluations.items(), key=lambda item: "before" not in item[0]):
        origin = evaluation.provenance
        groups.setdefault((origin.split, origin.data), Evaluations())[label] = evaluation
    ranked = sorted(groups.items(), key=lambda item: _SPLITS.index(item[0][0]) if item[0][0] in _SPLITS else 9)
    return [group for _, group in ranked]


def _group(name: str, evaluations: Evaluations) -> dict[str, Any]:
    """What the page shows of a group; `name` is unique on the page, for anchors.

    At most 500 questions are listed; those that every evaluation answered correctly are left out first.
    """
    base = next(iter(evaluations))
    metric, by_id = evaluations[base].metrics[0], dict[str, dict[str, QuestionRecord]]()
    for label, evaluation in evaluations.items():
        for record in evaluation.records:
            by_id.setdefault(record.id, {})[label] = record
    questions = [_question(records, metric) for records in by_id.values()]
    ranked = sorted(enumerate(questions), key=lambda each: not each[1].kinds)
    return {
        "name": name,
        "split": evaluations[base].provenance.split,
        "evaluations": evaluations,
        "base": base,
        "metric": metric,
        "tables": [*score_tables("scores", evaluations, types=True)],
        "questions": questions,
        "listed": [question for _, question in sorted(ranked[:_MOST_QUESTIONS], key=lambda each: each[0])],
        "kind_counts": Counter(kind for question in questions for kind in question.kinds),
    }


def _question(records: dict[str, QuestionRecord], metric: str) -> Question:
    every = [record.scores.get(metric) for record in records.values()]
    scores = [score for score in every if score is not None]
    difference = scores[1] - scores[0] if len(records) == len(scores) == 2 else 0.0
    kinds = {
        "differs": len({*scores}) > 1,
        "win": difference > 0,
        "loss": difference < 0,
        "short": bool(scores) and min(scores) < 1,
        "failed": any(record.failure for record in records.values()),
    }
    return Question(records, every, [kind for kind, applies in kinds.items() if applies], difference)


def write_questions_page(drafts: Sequence[Draft], path: str | Path) -> Path:
    """Write a page on which questions can be struck out to a file in one step, and return its path.

    The browser saves the others under the name of the page with `-kept.jsonl`.
    """
    path = Path(path)
    script = files("knowgap.reports").joinpath("templates/questions.js").read_text(encoding="utf-8")
    page = _render(
        "questions.html.jinja",
        title=f"{len(drafts)} questions to look through",
        drafts=drafts,
        kinds=KINDS,
        file_name=f"{path.stem}-kept.jsonl",
        lines=[[draft.id, draft.to_line()] for draft in drafts],
        script=Markup(script),
        script_digest=f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
    )
    return write_file(path, page)


def _render(template: str, **values: Any) -> str:
    """Render a template, with values escaped as HTML; characters that cannot be shown or reverse text become U+FFFD."""
    page = _environment().get_template(template).render(contents=[], **values)
    return _UNPRINTABLE.sub("\ufffd", page).lstrip()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("knowgap.reports"),
        autoescape=True,
        extensions=["jinja2.ext.do"],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"found_gold": found_gold}
    environment.filters |= {
        "two_digits": lambda score: "–" if score is None else f"{score:.2f}",
        "words": lambda name: re.sub(r"\blm\b", "LM", (name.partition(":")[2] or name).replace("_", " ")),
    }
    return environment
