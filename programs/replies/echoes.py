"""Recognises what is not an answer although it is given as one: a repetition of the prompt, or a probability.

Small models repeat the question, the style or the description of the field, or state how sure they are.
"""

from __future__ import annotations

import re

from knowgap.programs.replies import forms
from knowgap.programs.replies.quotations import is_shown, question_asked
from knowgap.signatures import STYLES
from knowgap.signatures.values import unwrap

_SHORTEST_QUESTION = 3
"""The fewest words of a question whose repetition is removed; an answer may well contain a query of one or two
words."""
_QUESTION_LABEL = re.compile(r"[*_`\"']{0,3}question[*_`\"']{0,3}\s*:[*_`\s]*", re.I)
_ANSWER_LABEL = re.compile(r"(?<![^\W_])(?:the )?(?:final )?answer[*_`\"']{0,3}\s*(?::|\bis\b:?)[*_`\s]*(?=\S)", re.I)
_PREAMBLE = re.compile(
    r"(?:(?:sure|certainly|of course|okay|ok)\b[^.!:\n]*[.!:]\s*)?"
    r"(?:(?:based on|according to) [^,\n]{1,80},\s*)?"
    r"(?:the|my) (?:final |short |correct |best )?answer(?:\s*:|\s+is\b\s*:?)(?!\s*(?:that|not)\b)\s*",
    re.I,
)
"""The words that introduce an answer."""
_PROBABILITY = re.compile(r"(?:confidence|probability)?\W*(?:0?\.\d+|[01]\.\d+|\d{1,3}\s?%)", re.I)
_RUN = 6
"""An answer repeats a style if it has this many consecutive words of the style's wording."""
_NUMERIC = re.compile(
    r"\b(?:how|number|value|amount|percent(?:age)?|rate|ratio|share|proportion|fraction|probability|chance|odds|score"
    r"|average|mean|median|index|coefficient|factor|exponent|price|cost|fee|fare|tax|wage|salary|exchange"
    r"|size|length|width|height|depth|radius|diameter|thickness|distance|area|volume|mass|weight|density|speed|velocity"
    r"|temperature|pressure|voltage|wavelength|frequency|magnitude|eccentricity|albedo|period|age|gpa|gini"
    r"|more|less|most|least|larger|largest|smaller|smallest|higher|highest|lower|lowest|version|calculate|compute)\b"
    r"|\d\.\d|%",
    re.I,
)
"""Words of questions whose answer may be a number below 1, or a percentage."""


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[^\W_]+", text.casefold())
    return {tuple(words[k : k + _RUN]) for k in range(len(words) - _RUN + 1)}


_STYLES = set[tuple[str, ...]]().union(*map(_runs, STYLES.values()))


def read_answer(answer: str) -> str:
    """Remove a repetition of the question, and words such as "The answer is", from the beginning of an answer.

    Raises:
        ValueError: nothing else is left; the answer repeats the wording of a style; or it is a probability, such as
            `0.95`, though the question asks for no number and no shown text contains it.
    """
    question = question_asked()
    text = without_preamble(_without_question(answer, question))
    if not text and answer:
        raise ValueError(f"the question again, or no more than what leads to an answer: {answer!r:.80}")
    if not _STYLES.isdisjoint(_runs(text)):
        raise ValueError(f"the style again: {answer!r:.80}")
    if question and _PROBABILITY.fullmatch(text) and not _NUMERIC.search(question) and not is_shown(text):
        raise ValueError(f"a probability, and no answer: {text!r}")
    return text


def without_preamble(text: str) -> str:
    """Remove words that introduce an answer, such as "The answer is", and then the quotes around the rest."""
    if (match := _PREAMBLE.match(text)) is None:
        return text
    rest = text[match.end() :].strip()
    return unwrap(rest.removesuffix(".") if rest.endswith(('".', "”.")) else rest)


def _without_question(answer: str, question: str) -> str:
    label = _QUESTION_LABEL.match(answer)
    text = answer[label.end() :] if label else answer
    words = re.findall(r"[^\W_]+", question)
    if len(words) >= _SHORTEST_QUESTION:
        spelled = r"[\W_]+".join(map(re.escape, words))
        again = re.match(rf"\W*{spelled}(?:\W*\Z|[^\w\n?]*[?\n]+[\s*\"'`]*)", text, re.I)
        if again:
            rest = text[again.end() :]
            behind = _ANSWER_LABEL.match(rest)
            return unwrap(rest[behind.end() :] if behind else rest)
    if label is None:
        return answer
    behind = _ANSWER_LABEL.search(text)
    return unwrap(text[behind.end() :]) if behind else ""


def repeats_description(value: str, name: str, description: str) -> bool:
    """Whether a value repeats what the prompt shows in its place.

    That is a placeholder such as `{answer}`, perhaps followed by the permitted values, or the description of the field.
    """
    bare = value.strip(" .`").casefold()
    form = re.fullmatch(r"([{<\[(][^{<\[(]*[}>\])])(?: must be .*)?", bare)
    copied = form is not None and forms.plain_name(form[1]) == forms.plain_name(name)
    return copied or bare == description.strip(" .").casefold()
