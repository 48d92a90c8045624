"""The answers of examples and predictions, normalised, and metrics that compare them or have a language model do so."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dspy

from knowgap.errors import DataError
from knowgap.programs.passages import strip_numbers
from knowgap.programs.replies.asking import ask_until_read
from knowgap.signatures import JudgeAnswer
from knowgap.signatures.values import is_unknown

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})
_YES_NO = re.compile(r"\b(yes|true|no|false)\b", re.IGNORECASE)
_CHOICES = (
    re.compile(r"^\W*([A-H1-8])\W*$", re.IGNORECASE),  # the letter and nothing else
    re.compile(r"\(([A-H1-8])\)", re.IGNORECASE),  # (B)
    re.compile(r"\b(?i:answer|option|choice)\b(?:\s+is)?\W*([A-H1-8])\b(?!\s+[a-z])"),  # the answer is B
    re.compile(r"^\s*([A-H1-8])[.):]"),  # B. photosynthesis
)


def normalize_answer(text: str) -> str:
    """Lower-case, strip ASCII punctuation, drop English articles, squeeze white space (in this order).

    This is the normalisation of the official SQuAD (Rajpurkar et al., 2016) and HotpotQA (Yang et al., 2018) scripts;
    punctuation outside ASCII stays, as it does there.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def predicted_answer(prediction: Any) -> str | None:
    """The prediction's `answer` as text, or None if it is absent, blank, or neither text, a number nor a boolean."""
    answer = prediction if isinstance(prediction, str) else getattr(prediction, "answer", None)
    text = answer_text(answer) if isinstance(answer, (str, int, float)) else ""
    return text if text.strip() else None


def answer_text(value: str | float) -> str:
    """An answer as it is compared: a boolean as yes or no, a whole number without a decimal point."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def reference_answers(example: Any) -> list[str]:
    """All acceptable answers of an example: `answer` (one, or a list) first, then `aliases` not equal to it."""
    given = example.answer if isinstance(example.answer, (list, tuple)) else [example.answer]
    return list(dict.fromkeys(map(answer_text, [*given, *(getattr(example, "aliases", None) or [])])))


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text has the words of some answer side by side, both normalised."""
    words = f" {normalize_answer(text)} "
    return any(f" {answer} " in words for answer in map(normalize_answer, answers) if answer)


def is_unanswerable(references: Sequence[str]) -> bool:
    """Whether the acceptable answers of a question say that the documents do not answer it."""
    return "unanswerable" in map(normalize_answer, references)


def _best(example: Any, prediction: Any, score: Callable[[str, str], float]) -> float:
    """The best score of the answer, compared with each reference; 0 without an answer.

    To a question whose answer is "unanswerable", it is right (1.0) to say that no answer is supported or known.
    """
    answer, references = predicted_answer(prediction), reference_answers(example)
    if is_unanswerable(references):
        return float(getattr(prediction, "supported", None) is False or (answer is not None and is_unknown(answer)))
    return 0.0 if answer is None else max(score(answer, reference) for reference in references)


def exact_match(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the normalised answer equals a normalised reference, else 0.0."""
    return _best(example, prediction, lambda answer, gold: float(normalize_answer(answer) == normalize_answer(gold)))


def token_f1(answer: str, reference: str) -> float:
    """Harmonic mean of token precision and recall of two normalised answers, in [0, 1].

    If either answer is `yes`, `no` or `noanswer` and the two differ, the score is 0, as in the HotpotQA evaluation
    script (Yang et al., 2018).
    """
    left, right = normalize_answer(answer), normalize_answer(reference)
    if left != right and (left in _CLOSED or right in _CLOSED):
        return 0.0
    words = left.split(), right.split()
    same = sum((Counter(words[0]) & Counter(words[1])).values())
    return 2 * same / (len(words[0]) + len(words[1])) if same else 0.0


def f1(example: Any, prediction: Any, trace: Any = None) -> float:
    """The best `token_f1` of the prediction over the example's answer and aliases."""
    return _best(example, prediction, token_f1)


def accuracy(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the prediction chooses the right one of the closed answers, else 0.0.

    A reference of "yes" or "no" is compared with the first yes, no, true or false in the prediction. A reference of one
    letter or digit is compared with the option that the prediction names; if it names none, the text of the option (an
    alias) counts too. Any other reference is matched exactly after normalisation.
    """
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    gold = reference_answers(example)[0].strip()
    if gold.lower() in ("yes", "no"):
        said = _YES_NO.search(answer)
        return float(said is not None and (said[1].lower() in ("yes", "true")) == (gold.lower() == "yes"))
    chosen = next((match[1].upper() for pattern in _CHOICES if (match := pattern.search(answer))), None)
    if re.fullmatch(r"[A-H1-8]", gold) and chosen is not None:
        return float(chosen == gold)
    return exact_match(example, prediction)


def cover_em(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the normalised answer contains a normalised reference, else 0.0.

    This is what FlashRAG (Jin et al., 2024) reports as accuracy, `acc`, and others as cover exact match.
    """

    def contains(answer: str, reference: str) -> float:
        gold = normalize_answer(reference)
        return float(bool(gold) and gold in normalize_answer(answer))

    return _best(example, prediction, contains)


def popqa_match(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the prediction contains an acceptable answer, as it is, in lower case or capitalised, else 0.0.

    This is the accuracy of Mallen et al. (2023), section 3: a substring, without normalisation.
    """
    forms = (str, str.lower, str.capitalize)
    return _best(example, prediction, lambda answer, gold: float(any(form(gold) in answer for form in forms)))


def str_em(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the question's readings for which the prediction contains some short answer.

    Source: Stelmakh et al. (2022), section 5. Answers are normalised as in SQuAD. As in ALCE (Gao et al., 2023), only
    the prediction's first paragraph counts, without its citations. The example has `short_answers: list[list[str]]`,
    one list for each reading.

    Raises:
        DataError: the example has no short answers.
    """
    readings = getattr(example, "short_answers", None)
    if not readings:
        raise DataError(f"question {example.question!r} has no short answers to look for", field="short_answers")
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    text = normalize_answer(strip_numbers(answer.strip().split("\n")[0]))
    answered = [any(normalize_answer(short) in text for short in shorts) for shorts in readings]
    return sum(answered) / len(answered)


def str_hit(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if every reading of the question is answered (`str_em` is 1), else 0.0."""
    return float(str_em(example, prediction) == 1.0)


def upper_bound(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if one of all the answers that a program weighed is right (exact match): the bound of its choice.

    These are the `answers` of RQ-RAG's trajectories (Chan et al., 2024, section 2.3; figures in section 4.3). A
    prediction without them is scored by its `answer`.
    """
    answers = getattr(prediction, "answers", None) or [predicted_answer(prediction)]
    fields = {"supported": getattr(prediction, "supported", None)}
    said = (dspy.Prediction(answer=answer, **fields) for answer in dict.fromkeys(answers))
    return max(exact_match(example, each) for each in said)


def judged_accuracy(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if a language model finds that the prediction implies a reference, else 0.0 (MIGRES, Acc†, table 11).

    The judge is the language model in DSPy's settings. A prediction without an answer scores 0 and is not shown to it,
    nor is one to an unanswerable question; an unreadable verdict scores 0 as well.
    """
    answer, references = predicted_answer(prediction), reference_answers(example)
    if answer is None or is_unanswerable(references):
        return exact_match(example, prediction)
    asked = {"question": example.question, "prediction": answer, "reference": " or ".join(references)}
    with dspy.context(trace=None):  # a judge's calls are no demonstrations of a program
        verdict = ask_until_read(dspy.Predict(JudgeAnswer), asked).prediction
    return float(verdict is not None and verdict.correct is True)


_ALL = (exact_match, f1, accuracy, cover_em, popqa_match, str_em, str_hit, upper_bound, judged_accuracy)
OF_ANSWERS: dict[str, Any] = {each.__name__: each for each in _ALL}
"""The metrics of this file by name."""
