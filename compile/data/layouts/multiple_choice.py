"""ARC (Clark et al., 2018) and OpenBookQA (Mihaylov et al., 2018): multiple choice, JSON Lines.

The official layout is `{"id", "question": {"stem", "choices": [{"label", "text"}]}, "answerKey"}`. Both data sets are
also distributed flat: `{"id", "question" or "question_stem", "choices": {"label": [], "text": []}, "answerKey"}`. The
lettered options are appended to the question; the answer is the letter, and the option's text is an alias.
"""

from __future__ import annotations

from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_records


def read_multiple_choice(path: Path, pool: PassagePool) -> Examples:
    """Yield line numbers and examples of a file, which has no passages for the pool."""
    for record in read_records(path):
        stem, choices = _nested(record) if isinstance(record.data.get("question"), dict) else _flat(record)
        options = dict(choices)
        if len(options) != len(choices):
            raise record.error(f"a label stands twice among {', '.join(label for label, _ in choices)}", "choices")
        key = record.text("answerKey")
        if key not in options:
            raise record.error(f"{key!r} is none of the options {', '.join(options)}", "answerKey")
        lettered = "\n".join(f"{label}. {text}" for label, text in options.items())
        example = make_example(
            id=record.identifier("id"),
            question=f"{stem}\n{lettered}",
            answers=[key, options[key]],
            type="multiple_choice",
        )
        yield record.line, example


def _nested(record: Record) -> tuple[str, list[tuple[str, str]]]:
    question = record.object("question")
    return question.text("stem"), [(each.text("label"), each.text("text")) for each in question.objects("choices")]


def _flat(record: Record) -> tuple[str, list[tuple[str, str]]]:
    choices = record.object("choices")
    labels, texts = choices.texts("label"), choices.texts("text")
    if len(labels) != len(texts):
        raise record.error(f"has {len(labels)} labels and {len(texts)} texts", "choices")
    return record.text("question_stem" if "question_stem" in record.data else "question"), list(
        zip(labels, texts, strict=True)
    )
