"""Single modules by themselves: MIGRES' preliminary studies (tables 1, 2 and 7), RA-ISF's sub-modules (table 4).

A probe is a program in form, so that it is asked, counted, traced and continued like any other; what it measured is
read by the metrics `probe:NAME`. Where a paper judged with people or a larger model, a rule stands in, which is stated
with each probe: figures are not the paper's, and the tables mark them so.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import dspy

from knowgap.compile.evaluation.metrics.f1 import f1
from knowgap.compile.evaluation.metrics.normalize import normalize_answer, reference_answers
from knowgap.errors import DataError, UsageError
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, Switch
from knowgap.programs.reading.passage_numbering import cited, distinct
from knowgap.retrieval.passage import Passage
from knowgap.signatures import (
    STYLES,
    UNANSWERABLE,
    AnswerDirectly,
    Decompose,
    ExtractUsefulInfo,
    MissingInfo,
    PassageRelevance,
    PromptedKnowledge,
    SelfKnowledge,
)

__all__ = ["PROBES", "Extraction", "MissingInformation", "OwnKnowledge", "Probe", "SubModules", "measured"]

_SMALL = frozenset(
    {
        *("a", "an", "and", "are", "at", "be", "by", "did", "do", "does", "for", "from", "in", "is", "it", "of", "on"),
        *("or", "the", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose", "with"),
    }
)


def measured(name: str) -> Callable[..., float]:
    """The metric that reads what a probe measured under `name`; undefined (`DataError`) where it measured nothing."""

    def read(example: Any, prediction: Any, trace: Any = None) -> float:
        value = (prediction.get("measured") or {}).get(name)
        if value is None:
            raise DataError(f"{name} is not defined for the question {example.question!r}", field=name)
        return float(value)

    return read


class Probe(Program):
    """A module asked with what the data say it should be asked with.

    Args:
        examples: the questions with their evidence; a probe knows no others.
        retriever: the index, for probes that retrieve.
        seed: of what is drawn for each question.
        **hyperparameters: as declared.
    """

    def __init__(self, examples: Sequence[dspy.Example], retriever: Any = None, seed: int = 0, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.examples = {example.question: example for example in examples}
        self.seed = seed

    def example(self, question: str) -> dspy.Example:
        """What the data say about a question."""
        if question not in self.examples:
            raise UsageError(f"the probe {self.name} knows nothing about {question!r}: it asks its own data alone")
        return self.examples[question]

    def draw(self, question: str) -> random.Random:
        """Random numbers that depend on the seed and the question alone."""
        return random.Random(hashlib.sha256(f"{self.seed}\n{question}".encode()).digest())

    def result(self, answer: str, **values: float | None) -> dspy.Prediction:
        """The prediction with what was measured."""
        return self.conclude(answer, [], measured=values)


def evidence(example: dspy.Example) -> list[tuple[str, str]]:
    """Sub-questions with their answers.

    Answers are the objects of the evidence triples where the data have these (2WikiMultihopQA words the answers of its
    sub-questions as sentences), else those of the decomposition. Triples without worded questions are read as such.

    Raises:
        DataError: the question has neither.
    """
    worded = example.get("decomposition") or []
    triples = example.get("evidences") or []
    if triples:
        asked = [step["question"] for step in worded]
        if len(asked) != len(triples):
            asked = [f"{relation} of {subject}?" for subject, relation, _ in triples]
        return list(zip(asked, (obj for _, _, obj in triples), strict=True))
    found = [(step["question"], step["answer"]) for step in worded if step.get("answer")]
    if not found:
        raise DataError(f"the question {example.question!r} names no evidence", field="evidences")
    return found


def says(text: str, answer: str) -> bool:
    """Whether a text contains an answer, after normalisation."""
    return f" {normalize_answer(answer)} " in f" {normalize_answer(text)} "


class Extraction(Probe):
    """Can the model pick what is useful out of five passages? (MIGRES, section 2, table 1).

    Five passages are drawn from the best that are retrieved; for every second question, by chance, a gold one among
    these is sure to be drawn, since few of a small corpus are positive. A passage is positive if it has the answer
    to a sub-question. `useful` is 1 where something was extracted just when there was something. `precision` and
    `recall` compare the cited passages with the positive ones, with `entailed_` before them for what is left once
    statements that no cited passage entails are dropped.
    """

    name = "probe_extraction"
    part_names = ("retriever", "entailment")

    passages = Integer(5, "passages read (section 2.1)", low=1, high=20)
    retrieve_k = Integer(50, "passages retrieved to draw from (section 2.1)", low=1, high=200)

    def __init__(self, examples: Sequence[dspy.Example], retriever: Any = None, seed: int = 0, **hyperparameters: Any):
        super().__init__(examples, retriever, seed, **hyperparameters)
        from knowgap.retrieval import EmbeddedEntailment

        self.entailment = EmbeddedEntailment()
        self.leaf = dspy.Predict(ExtractUsefulInfo)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        steps = evidence(self.example(question))
        hits = self.retrieve([question], self.retrieve_k)[0]
        gold = set(self.example(question).get("gold_ids") or [])
        pool = distinct(hit.passage for hit in hits)
        draw = self.draw(question)
        own = [passage for passage in pool if passage.id in gold]
        first = [draw.choice(own)] if own and draw.random() < 0.5 else []
        rest = [passage for passage in pool if passage not in first]
        chosen = [*first, *draw.sample(rest, min(len(rest), self.passages - len(first)))]
        draw.shuffle(chosen)
        positive = {p.id for p in chosen if any(says(str(p), answer) for _, answer in steps)}
        output = self.ask(self.leaf, question=question, queries=[q for q, _ in steps], passages=chosen)
        statements = [
            (s.statement, cited(chosen, s.sources)) for s in (output.statements if output is not None else [])
        ]
        pairs = [(str(p), statement) for statement, sources in statements for p in sources]
        holds = iter(self.entailment.entails(pairs) if pairs else [])
        kept = [p for _, sources in statements for p in sources if next(holds) >= 0.5]
        plain = _overlap({p.id for _, sources in statements for p in sources}, positive)
        after = _overlap({p.id for p in kept}, positive)
        return self.result(
            "; ".join(statement for statement, _ in statements) or "nothing",
            useful=bool(statements) == bool(positive),
            precision=plain[0],
            recall=plain[1],
            entailed_precision=after[0],
            entailed_recall=after[1],
        )


def _overlap(found: set[str], wanted: set[str]) -> tuple[float | None, float | None]:
    same = len(found & wanted)
    return same / len(found) if found else None, same / len(wanted) if wanted else None


class MissingInformation(Probe):
    """Does the model know whether it can answer, and what it lacks? (MIGRES, section 2, table 2).

    All the evidence, or a part of it that chance draws (perhaps nothing), is given as known. `accuracy` is 1 where the
    model answers with all of it, or says that it cannot with a part; `match` is 1 where at least half of the content
    words of a sub-question that is still open stand in what the model calls missing.
    """

    name = "probe_missing"
    needs_retriever = False

    partial = Switch(False, "give a part of the evidence only")

    def __init__(self, examples: Sequence[dspy.Example], retriever: Any = None, seed: int = 0, **hyperparameters: Any):
        super().__init__(examples, retriever, seed, **hyperparameters)
        self.main = dspy.Predict(MissingInfo)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        steps = evidence(self.example(question))
        given = self.draw(question).randrange(len(steps)) if self.partial else len(steps)
        known = [f"{q} {a}" for q, a in steps[:given]]
        output = self.ask(self.main, question=question, known=known, style=STYLES["short"])
        answer = str(output.get("answer") or "") if output is not None else ""
        gives_up = not answer.strip() or UNANSWERABLE in answer.casefold()
        missing = str(output.get("missing") or "") if output is not None else ""
        match = max(_share(q, missing) for q, _ in steps[given:]) >= 0.5 if self.partial and gives_up else None
        return self.result(answer or UNANSWERABLE, accuracy=gives_up == self.partial, match=match)


def _share(wanted: str, text: str) -> float:
    """Share of the content words of `wanted` that stand in `text`; placeholders such as `#1` aside."""
    words = {w for w in re.findall(r"(?<!#)\b\w+", wanted.casefold()) if w not in _SMALL}
    return len(words & set(re.findall(r"\w+", text.casefold()))) / len(words) if words else 0.0


class OwnKnowledge(Probe):
    """Is what the model writes from memory right? (MIGRES, section 4.5, table 7).

    The model is prompted with the sub-questions; `contains` is the share of their answers that its passage contains.
    Where a question has no evidence, it is its own sub-question, and any of its answers counts.
    """

    name = "probe_own_knowledge"
    needs_retriever = False

    def __init__(self, examples: Sequence[dspy.Example], retriever: Any = None, seed: int = 0, **hyperparameters: Any):
        super().__init__(examples, retriever, seed, **hyperparameters)
        self.knowledge = dspy.Predict(PromptedKnowledge)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        example = self.example(question)
        worded = any(step.get("answer") for step in example.get("decomposition") or [])
        steps = evidence(example) if worded or example.get("evidences") else []
        output = self.ask(self.knowledge, queries=[q for q, _ in steps] or [question])
        text = str(output.get("passage") or "") if output is not None else ""
        if steps:
            contains = sum(says(text, answer) for _, answer in steps) / len(steps)
        else:
            contains = float(any(says(text, answer) for answer in reference_answers(example)))
        return self.result(text or "nothing", contains=contains)


class SubModules(Probe):
    """How far RA-ISF's three sub-modules can be relied on (RA-ISF, section 5.5, table 4).

    `knows` is 1 where the model says that it knows the answer just when its direct answer has an F1 of 0.5 or more.
    `relevance` is the share of the retrieved passages judged relevant just when they contain an answer (for yes/no
    questions, when they are gold). `decomposition` is 1 where two or more sub-questions are written that together keep
    at least half of the question's content words. The paper has all three judged by GPT-4 and people.
    """

    name = "probe_sub_modules"

    top_k = Integer(5, "passages judged", low=1, high=20)

    def __init__(self, examples: Sequence[dspy.Example], retriever: Any = None, seed: int = 0, **hyperparameters: Any):
        super().__init__(examples, retriever, seed, **hyperparameters)
        self.know = dspy.Predict(SelfKnowledge)
        self.direct = dspy.Predict(AnswerDirectly)
        self.relevance = dspy.Predict(PassageRelevance)
        self.decompose = dspy.Predict(Decompose)

    def forward(self, question: str) -> dspy.Prediction:
        """Measure one question."""
        example = self.example(question)
        closed = example.answer in ("yes", "no")
        said = self.ask(self.know, question=question)
        output = self.ask(self.direct, question=question, style=STYLES["yes_no" if closed else "short"])
        answer = str(output.get("answer") or "") if output is not None else ""
        right = f1(example, dspy.Prediction(answer=answer)) >= 0.5
        passages = self.retrieve_passages(question, self.top_k)
        judged = [self.ask(self.relevance, inlined=[p], question=question, passage=str(p)) for p in passages]
        agree = [
            (out is not None and out.relevant is True) == self._relevant(example, p, closed)
            for out, p in zip(judged, passages, strict=True)
        ]
        parts = self.ask(self.decompose, question=question)
        questions = [q for q in (parts.questions if parts is not None else []) if q.strip()]
        whole = len(questions) > 1 and _share(question, " ".join(questions)) >= 0.5
        return self.result(
            answer or "nothing",
            knows=(said is not None and said.knows is True) == right,
            relevance=sum(agree) / len(agree) if agree else None,
            decomposition=whole,
        )

    @staticmethod
    def _relevant(example: dspy.Example, passage: Passage, closed: bool) -> bool:
        if closed:
            return passage.id in (example.get("gold_ids") or [])
        return any(says(str(passage), answer) for answer in reference_answers(example))


PROBES: dict[str, type[Probe]] = {
    probe.name: probe for probe in (Extraction, MissingInformation, OwnKnowledge, SubModules)
}
"""Probes by name."""
