"""Record what a language model replies to short prompts over the bundled sample, so that tests can read it again.

    python benchmarks/recorded_replies.py openai/MODEL http://127.0.0.1:8081/v1 tests/programs/replies/recorded.jsonl

Each line of the file has a model, a signature (a name in `knowgap.signatures`, or one of DSPy's one-line signatures),
the form that was asked for (where none was, what was asked for instead), the inputs, and the reply. What a model has
already been asked is not asked again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
from near_misses import FORMS
from pydantic_core import to_jsonable_python

from knowgap import signatures
from knowgap.compiling.data import load_dataset
from knowgap.programs.replies.adapter import lenient
from knowgap.programs.replies.asking import default_limits
from knowgap.signatures import STYLES, SourcePassage

CASES = [
    ("question -> answer", "chat"),
    ("question -> answer", "json"),
    ("passages, question -> answer", "chat"),
    ("passages, question -> answer", "json"),
    ("passages, question -> summary", "chat"),
    ("question -> queries: list[str]", "json"),
    ("question -> answer, confidence: float", "chat"),
    ("AnswerDirectly", "chat"),
    ("AnswerFromPassages", "chat"),
    ("AnswerFromPassages", "json"),
    ("ReasonedAnswer", "chat"),
    ("ReasonedAnswer", "json"),
    ("ReasonDirectly", "chat"),
    ("PassageRelevance", "chat"),
    ("Decompose", "chat"),
    ("ExtractUsefulInfo", "chat"),
    ("MissingInfo", "chat"),
    ("MissingInfo", "json"),
]
"""Signatures, and the form in which each is asked."""

WAYS = {
    "bare": "",
    "sentence": "Begin your reply with: The answer is",
    "thoughts": "Think first, between <think> and </think>. Then write the answer alone.",
    "fence": "Write the answer into a code block.",
    "labels": "Write the question again behind `Question:`, and the answer behind `Answer:`.",
    "object": "Reply with a JSON object that holds your response.",
    "nested": 'Reply as JSON: {"result": {"answer": …, "confidence": from 0 to 1}}',
    "confidence": "Say from 0 to 1 how sure you are of your answer.",
}
"""What is asked for where no form is: replies that only a lenient reader reads."""


def signature_of(name: str) -> Any:
    """A signature by its name in `knowgap.signatures`, or the one that a line spells."""
    return dspy.Signature(name) if "->" in name else getattr(signatures, name)


def cases() -> Iterator[dict[str, Any]]:
    """What is asked: a signature, a form and inputs, each over another question of the sample."""
    data = load_dataset("sample")
    passages = {passage.title: passage for passage in data.corpus}
    questions = [question for question in data.splits["dev"] if len(question.gold_ids) == 2]
    for at, (name, form) in enumerate([*CASES, *(("passages, question -> answer", way) for way in WAYS)]):
        question = questions[at % len(questions)]
        shown = [passages[title] for title in question.gold_ids if title in passages]
        texts = [SourcePassage(id=i, title=each.title, text=each.text[:300]) for i, each in enumerate(shown, 1)]
        given = {
            "question": question.question,
            "passages": texts,
            "style": STYLES["short"],
            "queries": [question.question],
            "known": [each.text.split(". ")[0] + "." for each in texts],
            "passage": texts[0] if texts else "",
            "max_questions": 3,
        }
        fields = signature_of(name).input_fields.items()
        inputs = {field: given.get(field, [] if "list" in str(kind.annotation) else "") for field, kind in fields}
        if "->" in name and "passages" in inputs:
            inputs["passages"] = "\n".join(f"{each.title}: {each.text}" for each in texts)
        yield {"signature": name, "form": form, "inputs": inputs}


def record(model: str, api_base: str, file: Path) -> None:
    """Ask each case that the file has no reply of this model for, and add the reply."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    done = {(each["model"], each["signature"], each["form"]) for each in map(json.loads, lines)}
    lm = dspy.LM(model, api_base=api_base, api_key="none", temperature=0, max_tokens=200, timeout=1800, cache=False)
    for case in cases():
        if (model, case["signature"], case["form"]) in done:
            continue
        limits: dict[str, Any] = {}
        if case["form"] in WAYS:
            asked = "\n\n".join([*case["inputs"].values(), WAYS[case["form"]]]).strip()
            messages = [{"role": "user", "content": asked}]
        else:
            adapter = lenient(FORMS[case["form"]]())
            messages = adapter.format(signature_of(case["signature"]), [], case["inputs"])
            limits = {name: value for name, value in default_limits(lm, adapter).items() if name == "stop"}
        [reply] = lm(messages=messages, **limits)
        text = reply if isinstance(reply, str) else reply["text"]
        line = {"model": model, **to_jsonable_python(case), "reply": text}
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    record(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
