"""A page on which written questions are reviewed, struck out, and saved."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from knowgap.compiling.questions.records import KINDS, Draft
from knowgap.reports.rendering import render
from knowgap.storage.files import write_file


def render_questions(drafts: Sequence[Draft], file_name: str = "questions-kept.jsonl") -> str:
    """Render questions as a self-contained HTML page, which may not load anything.

    On the page, questions can be struck out; the browser saves the others under `file_name`.
    """
    script = files("knowgap.reports").joinpath("templates/questions.js").read_text(encoding="utf-8")
    return render(
        "questions.html.jinja",
        title=f"{len(drafts)} questions to look through",
        drafts=drafts,
        kinds=KINDS,
        file_name=file_name,
        lines=[[draft.id, draft.to_line()] for draft in drafts],
        script=Markup(script),
        script_digest=f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
    )


def write_questions_page(drafts: Sequence[Draft], path: str | Path) -> Path:
    """Write the page of `render_questions` to a file in one step, and return its path."""
    path = Path(path)
    return write_file(path, render_questions(drafts, f"{path.stem}-kept.jsonl"))
