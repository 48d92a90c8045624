"""How many replies are read that are nearly, but not quite, what a signature asks for.

For each signature, the deciding fields are written as models write them, alone and beside the other fields, in chat
and JSON form. A reply counts as read if the deciding fields, which the program cannot do without, are right.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import dspy
from dspy.adapters.utils import get_annotation_name
from table import Table

from knowgap import signatures
from knowgap.programs.replies.fields import read_fields

FORMS = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter}
_CLOSED = "\n\n[[ ## completed ## ]]"

TEXT = "Ada Moor, a painter & sailor (1871)"
QUESTIONS = ["Who painted The Grey Ferry?", "Where was she born, and when?"]
BULLETS = [("1. ", "2. "), ("1) ", "2) "), ("- ", "- "), ("* ", "* "), ("• ", "• "), ("", "")]
FACTS = [{"statement": "Ada Moor was born in Wick.", "sources": [1]}]
SEVERAL = [*FACTS, {"statement": "She painted The Grey Ferry.", "sources": [2, 3]}]

WRITTEN: dict[str, list[tuple[Any, list[Any]]]] = {
    "str": [(TEXT, [f'"{TEXT}"', f"“{TEXT}”", f"«{TEXT}»", f"**{TEXT}**", f"```\n{TEXT}\n```", [TEXT]])],
    "bool": [
        (True, ["True.", "yes", "YES", "**True**", "True, it is.", "Answer: yes", "`true`"]),
        (False, ["False.", "no", "No,", "**False**", "No, it isn’t", "answer: no", 0]),
    ],
    "int": [
        (5, ["5/5", "5 (certain)", "100%", "5.0", "5 out of 5", "Confidence: 5"]),
        (4, ["4 out of 5", "80%", "4 - fairly sure", "**4**", 4.0]),
        (2, ["2/5", "2 - unsure"]),
    ],
    "float": [
        (0.9, ["90%", "9/10", "0,9", "0.9 (very sure)", "9 out of 10", 90, "about 0.9"]),
        (0.25, ["25%", "1/4"]),
    ],
    "list[str]": [
        (
            QUESTIONS,
            [
                *(f"{first}{QUESTIONS[0]}\n{second}{QUESTIONS[1]}" for first, second in BULLETS),
                f"Here they are:\n\n1. {QUESTIONS[0]}\n\n2. {QUESTIONS[1]}",
                f"```json\n{json.dumps(QUESTIONS)}\n```",
                str(QUESTIONS),
                f"[“{QUESTIONS[0]}”, “{QUESTIONS[1]}”]",
                [f"1. {QUESTIONS[0]}", f"2. {QUESTIONS[1]}"],
                [f"- {question}" for question in QUESTIONS],
                [{"question": question} for question in QUESTIONS],
            ],
        ),
        (QUESTIONS[1:], [QUESTIONS[1], f'"{QUESTIONS[1]}"', f"- {QUESTIONS[1]}", f"1. {QUESTIONS[1]}"]),
        ([], ["none", "[]", "N/A", "(none)"]),
    ],
    "list[int]": [
        ([1, 3], ["1, 3", "[1] and [3]", "P1, P3", "1\n3", "- 1\n- 3", "Passages 1 and 3.", "[1], [3]", ["1", "3"]]),
        ([1], ["1", "[1]", 1, "P1", "Passage 1"]),
        ([], ["none", "[]", "None.", "N/A"]),
    ],
    "list[Statement]": [
        (
            FACTS,
            [
                FACTS[0],
                json.dumps(FACTS[0]),
                f"```json\n{json.dumps(FACTS)}\n```",
                str(FACTS),
                [{**FACTS[0], "sources": 1}],
                [{**FACTS[0], "sources": "[1]"}],
                [{**FACTS[0], "sources": ["P1"]}],
                [{"fact": FACTS[0]["statement"], "source": "1"}],
                ["Ada Moor was born in Wick. [1]"],
                "- Ada Moor was born in Wick [1].",
                [*FACTS, {"sources": [2]}],
            ],
        ),
        (SEVERAL, ["1. Ada Moor was born in Wick [1].\n2. She painted The Grey Ferry [2][3]."]),
        ([{**FACTS[0], "sources": []}], [[{"statement": FACTS[0]["statement"]}], [FACTS[0]["statement"]]]),
        ([], ["[]", "none"]),
    ],
}
"""By type of field: a value, and how models write it."""

PLAIN = {kind: cases[0][0] for kind, cases in WRITTEN.items()}


class NearMiss(NamedTuple):
    """One reply to a prompt in a form, what is odd about it, and the right values of the deciding fields."""

    form: str
    what: str
    reply: str
    values: dict[str, Any]


def all_signatures() -> dict[str, Any]:
    """All signatures of the package by name."""
    named = {name: getattr(signatures, name) for name in signatures.__all__}
    return {name: value for name, value in named.items() if isinstance(value, type(dspy.Signature))}


def deciding_fields(name: str) -> tuple[str, ...]:
    """The output fields of a signature without which its reply says nothing: those without a default, or a text."""
    fields = all_signatures()[name].output_fields
    required = tuple(field for field, info in fields.items() if info.is_required())
    return required or tuple(field for field, info in fields.items() if info.annotation is str)[:1]


def near_misses(name: str) -> Iterator[NearMiss]:
    """The replies to one signature."""
    fields = all_signatures()[name].output_fields
    kinds = {field: get_annotation_name(info.annotation) for field, info in fields.items()}
    plain = {field: PLAIN[kind] for field, kind in kinds.items()}
    deciding = {field: plain[field] for field in deciding_fields(name)}
    odd = [
        (field, spelled, {**deciding, field: value})
        for field in deciding
        for value, spellings in WRITTEN[kinds[field]]
        for spelled in spellings
    ]
    others = fields.keys() - deciding.keys()
    odd += [(field, spelled, deciding) for field in others for spelled in ("hard to say; it depends", None)]
    for form in FORMS:
        for field, spelled, values in odd:
            yield NearMiss(form, f"{field} as {spelled!r}", write(form, {**plain, field: spelled}), values)
        for what, reply in _replies(form, plain, deciding).items():
            yield NearMiss(form, what, reply, deciding)


def write(form: str, values: Mapping[str, Any]) -> str:
    """A well-formed reply."""
    if form == "json":
        return json.dumps(values, ensure_ascii=False)
    sections = (f"[[ ## {name} ## ]]\n{_text(value)}" for name, value in values.items())
    return "\n\n".join(sections) + _CLOSED


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _labels(values: Mapping[str, Any], label: str) -> str:
    return "\n".join(label.format(name.replace("_", " ").capitalize(), _text(value)) for name, value in values.items())


def _other(values: Mapping[str, Any]) -> dict[str, Any]:
    """A first draft: other values of the same types."""
    others = {bool: lambda v: not v, str: lambda v: "Bo Reed", int: lambda v: 1, float: lambda v: 0.1}
    return {name: others.get(type(value), lambda v: v[:1])(value) for name, value in values.items()}


def _replies(form: str, values: Mapping[str, Any], deciding: Mapping[str, Any]) -> dict[str, str]:
    """Replies to a prompt in a form: first those that are odd in both, then those that are odd in this one."""
    indented = json.dumps(values, indent=2, ensure_ascii=False)
    whole, draft = write(form, values), write(form, _other(values))
    replies = {
        "as asked": whole,
        "in a code fence": f"```\n{whole}\n```",
        "chatter": f"Sure! Here is what I found.\n\n{whole}\n\nLet me know if {{anything}} is missing.",
        "thoughts first": f"<think>\nI need {{fields}}.\n{draft}\n</think>\n\n{whole}",
        "a draft first": f"{draft.removesuffix(_CLOSED)}\n\nChecked again:\n\n{whole}",
        "other order": write(form, dict(reversed(values.items()))),
        "deciding fields alone": write(form, deciding),
        "as labels": _labels(values, "{}: {}"),
        "as JSON in a code fence": f"```json\n{indented}\n```",
    }
    if form == "chat":
        return replies | {
            "no closing marker": whole.removesuffix(_CLOSED),
            "markers without spaces": whole.replace("[[ ## ", "[[##").replace(" ## ]]", "##]]"),
            "markers in capitals": "\n".join(line.upper() if "[[" in line else line for line in whole.splitlines()),
            "markers in bold": "\n".join(f"**{line}**" if "[[" in line else line for line in whole.splitlines()),
            "value behind its marker": whole.replace(" ## ]]\n", " ## ]] "),
            "goes on behind its end": f"{whole}\n\nYour input fields are:\n\n{draft}",
            "as JSON": write("json", values),
            "as bold labels": _labels(values, "**{}:** {}"),
            "as bold words": _labels(values, "**{}**: {}"),
            "as headings": _labels(values, "## {}\n{}\n"),
        }
    return replies | {
        "as a Python dictionary": str(dict(values)),
        "comma before the brace": f"{indented[:-2]},\n}}",
        "no closing brace": whole[:-1],
        "keys in capitals": write("json", {name.capitalize(): value for name, value in values.items()}),
        "keys with spaces": write("json", {name.replace("_", " "): value for name, value in values.items()}),
        "one more key": write("json", {**values, "note_to_user": "fine"}),
        "wrapped": write("json", {"output": values}),
        "in a list": f"[{whole}]",
        "typographic quotes": " ".join(indented.split()).replace(' "', " “").replace('"', "”"),
        "as markers": write("chat", values),
    }


def is_read(case: NearMiss, outputs: Mapping[str, Any] | None) -> bool:
    """Whether outputs hold the deciding values of a reply."""
    return outputs is not None and all(_plain(outputs.get(name)) == value for name, value in case.values.items())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [item.model_dump() if hasattr(item, "model_dump") else item for item in value]
    return round(value, 6) if type(value) is float else value


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Yield the table of replies and what was read of them."""
    known = list(all_signatures().items())[: 4 if options.quick else None]
    cases = [(case, read_fields(signature, case.reply)) for name, signature in known for case in near_misses(name)]
    read = [(case.form, is_read(case, outputs)) for case, outputs in cases]
    rows = [[form, sum(own == form for own, _ in read), read.count((form, True))] for form in FORMS]
    yield Table("Replies that are nearly right", ["form", "replies", "read"], rows)
