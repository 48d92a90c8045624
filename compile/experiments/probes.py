"""Single modules by themselves: MIGRES' preliminary studies (tables 1, 2 and 7), RA-ISF's sub-modules (table 4).

A probe is a program, so that it is asked, counted, traced and continued like any other. The metrics `probe:NAME` read
what it measured; `score_metrics` finds them. If a paper has people or a larger model judge, the probe applies a rule
instead, which its docstring states: the figures are not comparable with the paper's, and the tables say so.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.metrics import METRICS, Metric, UpperBound, f1, get_metric
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, reference_answers
from knowgap.errors import DataError, UnknownName
from knowgap.programs.base import Program
from knowgap.programs.entailment import entailment_of
from knowgap.programs.hyperparameters import Integer, Switch
from knowgap.programs.migres import is_answered
from knowgap.programs.passages import cited, distinct
from knowgap.programs.replies.text import known_text, text_of
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval.entailment import EntailmentModel
from knowgap.retrieval.passage import Passage, gold_name
from knowgap.signatures import (
    STYLES,
    AnswerDirectly,
    Decompose,
    ExtractUsefulInfo,
    MissingInfo,
    PassageRelevance,
    PromptedKnowledge,
    SelfKnowledge,
)

_FUNCTION_WORDS = frozenset(
    {
        *("a", "an", "and", "are", "at", "be", "by", "did", "do", "does", "for", "from", "in", "is", "it", "of", "on"),
        *("or", "the", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose", "with"),
    }
)


class Probe(Program):
    """Asks a single module with inputs that are right according to the data.

    Args:
        examples: the questions with their evidence; a probe answers no others.
        retriever: the index, for probes that retrieve.
        seed: the seed of the random draws for each question.
        **hyperparameters: as declared.

    Attributes:
        measures: the names of its measures.
    """

    measures: ClassVar[tuple[str, ...]] = ()

    def __init__(self, examples: Sequence[dspy.Example], retriever: Any = None, seed: int = 0, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.examples = {example.question: example for example in examples}
        self.seed = seed

    def rng(self, question: str) -> random.Random:
        """Random numbers that depend on the seed and the question alone."""
        return random.Random(hashlib.sha256(f"{self.seed}\n{question}".encode()).digest())


def evidence(example: dspy.Example) -> list[tuple[str, str]]:
    """The sub-questions of a question, with their answers.

    The answers are the objects of the evidence triples if there are any (2WikiMultihopQA words the answers of its
    sub-questions as sentences), else those of the decomposition. A triple without a worded question gets one.

    Raises:
        DataError: the question has neither.
    """
    worded = example.get("decomposition") or []
    triples = example.get("evidences") or []
    if triples:
        questions = [step["question"] for step in worded]
        if len(questions) != len(triples):
            questions = [f"{relation} of {subject}?" for subject, relation, _ in triples]
        return list(zip(questions, (obj for _, _, obj in triples), strict=True))
    steps = [(step["question"], step["answer"]) for step in worded if step.get("answer")]
    if not steps:
        raise DataError(f"the question {example.question!r} names no evidence", field="evidences")
    return steps


def _contains(text: str, answer: str) -> bool:
    """Whether a text contains an answer, after normalisation."""
    return f" {normalize_answer(answer)} " in f" {normalize_answer(text)} "


def _content_overlap(wanted: str, text: str) -> float:
    """Share of the content words of `wanted` that occur in `text`; placeholders such as `#1` do not count."""
    words = {w for w in re.findall(r"(?<!#)\b\w+", wanted.casefold()) if w not in _FUNCTION_WORDS}
    return len(words & set(re.findall(r"\w+", text.casefold()))) / len(words) if words else 0.0


def _shares(passages: set[str], wanted: set[str]) -> tuple[float | None, float | None]:
    """Precision and recall, each None if its denominator is 0."""
    same = len(passages & wanted)
    return same / len(passages) if passages else None, same / len(wanted) if wanted else None


class Extraction(Probe):
    """Can the model pick what is useful out of five passages? (MIGRES, section 2, table 1).

    Five passages are drawn from the best retrieved ones. For about half of the questions, one of them is drawn from
    the gold ones, since few passages of a small corpus are positive. A passage is positive if it has the answer to a
    sub-question. `precision` and `recall` compare the cited passages with the positive ones; `entailed_precision` and
    `entailed_recall` do so without the statements that no cited passage entails. `extracted_where_positive` is 1 if
    statements were extracted and a passage is positive, or neither. The paper's "Useful" is a binary accuracy whose
    classes it does not define; nothing here is compared with it.

    The paper's entailment model is T5-XXL-TRUE-NLI; the default is the rule of `grounding`.
    """

    name = "probe_extraction"
    measures = ("precision", "recall", "entailed_precision", "entailed_recall", "extracted_where_positive")
    part_names = ("retriever", "entailment")

    passages = Integer(5, "passages read (section 2.1)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved to draw from (section 2.1)", low=1, high=200)

    def __init__(self, *args: Any, entailment: EntailmentModel | str | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.entailment = entailment_of(entailment)
        self.leaf = dspy.Predict(ExtractUsefulInfo)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        steps = evidence(self.examples[question])
        passages = self._draw_passages(question)
        output = self.ask(self.leaf, question=question, queries=[q for q, _ in steps], passages=passages)
        extracted = output.statements if output is not None else []
        statements = [(each.statement, cited(passages, each.sources)) for each in extracted]
        citations = [(passage, statement) for statement, sources in statements for passage in sources]
        entailed = self.entailment.entails([(str(passage), statement) for passage, statement in citations])
        kept = {passage.id for (passage, _), p in zip(citations, entailed, strict=True) if p >= 0.5}
        positive = {p.id for p in passages if any(_contains(str(p), answer) for _, answer in steps)}
        every = {passage.id for passage, _ in citations}
        measured = {
            **dict(zip(self.measures, [*_shares(every, positive), *_shares(kept, positive)], strict=False)),
            "extracted_where_positive": bool(statements) == bool(positive),
        }
        return self.conclude("; ".join(statement for statement, _ in statements) or "nothing", [], measured=measured)

    def _draw_passages(self, question: str) -> list[Passage]:
        pool = distinct(self.retrieve_passages(question, self.retrieve_k))
        gold = [passage for passage in pool if gold_name(passage.id, self.examples[question].get("gold_ids") or [])]
        rng = self.rng(question)
        first = [rng.choice(gold)] if gold and rng.random() < 0.5 else []
        rest = [passage for passage in pool if passage not in first]
        passages = [*first, *rng.sample(rest, min(len(rest), self.passages - len(first)))]
        rng.shuffle(passages)
        return passages


class MissingInformation(Probe):
    """Does the model know whether it can answer, and what is missing? (MIGRES, section 2, table 2).

    All the evidence, or a part of it that is drawn at random (possibly none), is given as known. `accuracy` is 1 if the
    model answers with all of it, or says that it cannot with a part. `match` is 1 if what the model calls missing
    holds at least half of the content words of a sub-question that is still open.
    """

    name = "probe_missing"
    measures = ("accuracy", "match")
    needs_retriever = False

    partial = Switch(False, "give a part of the evidence only")

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.main = dspy.Predict(MissingInfo)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        steps = evidence(self.examples[question])
        given = self.rng(question).randrange(len(steps)) if self.partial else len(steps)
        known = [f"{q} {a}" for q, a in steps[:given]]
        output = self.ask(self.main, question=question, known=known, style=STYLES["short"])
        answer, missing = text_of(output), text_of(output, "missing")
        gives_up = not is_answered(output)
        match = None
        if self.partial and gives_up:
            match = max(_content_overlap(q, missing) for q, _ in steps[given:]) >= 0.5
        measured = {"accuracy": gives_up == self.partial, "match": match}
        return self.conclude("unanswerable" if gives_up else answer, [], measured=measured)


class OwnKnowledge(Probe):
    """Is what the model writes from memory right? (MIGRES, section 4.5, table 7).

    The model is prompted with the sub-questions; `contains` is the share of their answers that its passage contains.
    A question without evidence is its own sub-question, and any of its answers counts.
    """

    name = "probe_own_knowledge"
    measures = ("contains",)
    needs_retriever = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.knowledge = dspy.Predict(PromptedKnowledge)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        example = self.examples[question]
        answered = any(step.get("answer") for step in example.get("decomposition") or [])
        steps = evidence(example) if answered or example.get("evidences") else []
        text = known_text(self.ask(self.knowledge, queries=[q for q, _ in steps] or [question]), "passage")
        if steps:
            contains = sum(_contains(text, answer) for _, answer in steps) / len(steps)
        else:
            contains = float(any(_contains(text, answer) for answer in reference_answers(example)))
        return self.conclude(text or "nothing", [], measured={"contains": contains})


class SubModules(Probe):
    """How reliable are RA-ISF's three sub-modules? (RA-ISF, section 5.5, table 4).

    `knows` is 1 if the model's claim to know the answer agrees with an F1 of at least 0.5 of its direct answer.
    `relevance` is the share of the retrieved passages whose judged relevance agrees with whether they are gold or (not
    for yes/no questions) contain an answer. `decomposition` is 1 if at least two sub-questions are written that
    together keep at least half of the question's content words. The paper has GPT-4 and people judge all three.
    """

    name = "probe_sub_modules"
    measures = ("knows", "relevance", "decomposition")

    top_k = Integer(5, "passages judged", low=1, high=20)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.know = dspy.Predict(SelfKnowledge)
        self.direct = dspy.Predict(AnswerDirectly)
        self.relevance = dspy.Predict(PassageRelevance)
        self.decompose = dspy.Predict(Decompose)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        example = self.examples[question]
        closed = example.answer in ("yes", "no")
        knows = self.ask(self.know, question=question)
        answer = text_of(self.ask(self.direct, question=question, style=STYLES["yes_no" if closed else "short"]))
        right = f1(example, dspy.Prediction(answer=answer)) >= 0.5
        agreements = []
        for passage in self.retrieve_passages(question, self.top_k):
            output = self.ask(self.relevance, inlined=[passage], question=question, passage=str(passage))
            judged_relevant = output is not None and output.relevant is True
            agreements.append(judged_relevant == self._relevant(example, passage, closed))
        output = self.ask(self.decompose, question=question)
        sub_questions = [q for q in (output.questions if output is not None else []) if q.strip()]
        measured = {
            "knows": (knows is not None and knows.knows is True) == right,
            "relevance": sum(agreements) / len(agreements) if agreements else None,
            "decomposition": len(sub_questions) > 1 and _content_overlap(question, " ".join(sub_questions)) >= 0.5,
        }
        return self.conclude(answer or "nothing", [], measured=measured)

    @staticmethod
    def _relevant(example: dspy.Example, passage: Passage, closed: bool) -> bool:
        if gold_name(passage.id, example.get("gold_ids") or []):
            return True
        return not closed and any(_contains(str(passage), answer) for answer in reference_answers(example))


PROBES: dict[str, type[Probe]] = {
    probe.name: probe for probe in (Extraction, MissingInformation, OwnKnowledge, SubModules)
}
"""Probes by name."""

_ACTIONS = ("direct", *(action for action in RQRAG.actions.choices if action != "all"))


def _read_measure(name: str) -> Metric:
    """A metric that reads what a probe measured, and raises `DataError` if it measured nothing."""

    def read(example: Any, prediction: Any, trace: Any = None) -> float:
        value = (prediction.get("measured") or {}).get(name)
        if value is None:
            raise DataError(f"{name} is not defined for the question {example.question!r}", field=name)
        return float(value)

    return read


def _share_of(action: str) -> Metric:
    """A metric: the share of an action on the path that RQ-RAG selects (figures 5, 11, 12); the root's is `direct`."""

    def share(example: Any, prediction: Any, trace: Any = None) -> float:
        actions = str(prediction.get("path") or "").split("/")
        return actions.count(action) / len(actions)

    return share


_OWN_METRICS: dict[str, Metric] = {
    **{f"probe:{name}": _read_measure(name) for probe in PROBES.values() for name in probe.measures},
    **{f"action:{action}": _share_of(action) for action in _ACTIONS},
}


def score_metrics(names: Sequence[str], *, best_of_answers: bool = False) -> dict[str, Metric]:
    """The metrics among `names` that score answers, by name; exact match if all are costs.

    Args:
        names: metrics, costs, `probe:NAME` for what a probe measures, and `action:NAME` for the share of an action on
            the path that RQ-RAG selects.
        best_of_answers: score the best of the prediction's `answers` (the upper bound of RQ-RAG, section 4.3).

    Raises:
        UnknownName: a name is none of these.
    """
    metrics: dict[str, Metric] = {}
    for name in [name for name in names if name not in COSTS] or ["exact_match"]:
        try:
            metric = _OWN_METRICS.get(name) or get_metric(name)
        except UnknownName:
            raise UnknownName.among("metric or cost", name, [*METRICS, *COSTS, *_OWN_METRICS]) from None
        metrics[name] = UpperBound(metric, name) if best_of_answers else metric
    return metrics
