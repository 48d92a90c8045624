"""The embedded entailment model against the formula that it replaced, by what was done to a statement.

Statements are made of development questions, on which nothing was trained: supporting sentences of HotpotQA that name
what they are about, evidence triples of 2WikiMultihopQA put into words, and questions of XQuAD (English) joined with
their answers. "said" is the statement beside its passage; "surname" beside the passage with a full name cut to its last
word; both are true. The other kinds are false: another name, number or answer of the passage, two names swapped, a
negation, another passage. A mean over both sides is the accuracy on true statements and on false ones, each with half
the weight.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bundled_models.reading_examples import squad_examples
from bundled_models.statements import KINDS, Statement, answered, edits, hotpot_statements
from scipy.special import expit
from table import Table, data_folder, note

from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.retrieval import EmbeddedEntailment
from knowgap.retrieval.entailment.words import name_runs, negated
from knowgap.retrieval.lexical import Stemmed, content_words, names, numbers
from knowgap.retrieval.minilm import sentence_encoder
from knowgap.retrieval.sentences import split_sentences

__all__ = ["add_arguments", "measure"]


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--entailment-statements", type=int, default=150, help="true ones of each data set, about (150)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Yield a table of the kinds of statements of each data set."""
    count = 8 if options.quick else options.entailment_statements
    rows = []
    for name, statements in _statements(data_folder(options), count):
        note(f"entailment: {name}, {len(statements)} statements")
        pairs = [(s.premise, s.text) for s in statements]
        judged = {"former": former_scores(pairs), "embedded": EmbeddedEntailment().entails(pairs)}
        right = {
            model: np.array([(score >= 0.5) == s.true for score, s in zip(scores, statements, strict=True)], float)
            for model, scores in judged.items()
        }
        kinds, true = np.array([s.kind for s in statements]), np.array([s.true for s in statements])
        for kind in KINDS:
            if (own := kinds == kind).any():
                cells = [str(mean_interval(scores[own].tolist())) for scores in right.values()]
                rows.append([name, kind, str(int(own.sum())), *cells])
        if true.any() and not true.all():
            both = [f"{(scores[true].mean() + scores[~true].mean()) / 2:.3f}" for scores in right.values()]
            rows.append([name, "mean over both sides", str(len(statements)), *both])
    yield Table(
        "Statements on the right side of 0.5",
        ["data", "kind", "statements", "former formula", "embedded"],
        rows,
        ["Accuracy with 95% bootstrap intervals over statements."],
    )


def _statements(folder: Path | None, count: int) -> Iterator[tuple[str, list[Statement]]]:
    makers = {
        "HotpotQA": ("hotpot_dev*.json", lambda path, rng: (hotpot_statements(r, rng) for r in _records(path))),
        "2WikiMultihopQA": ("2wiki_dev*.json", lambda path, rng: (_triples(r, rng) for r in _records(path))),
        "XQuAD": ("xquad_en.json", lambda path, rng: answered(list(squad_examples(path)), rng)),
    }
    for name, (pattern, make) in makers.items():
        path = next(iter(sorted(folder.rglob(pattern))), None) if folder else None
        if path is None:
            note(f"entailment: {name} is left out: its file is not in the folder of --data or KNOWGAP_TEST_DATA")
            continue
        made: list[Statement] = []
        for group in make(path, random.Random(0)):
            made += group
            if sum(s.true for s in made) >= 2 * count:  # said, and surname
                break
        yield name, made


def _records(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text("utf-8"))


def _triples(record: dict[str, Any], rng: random.Random) -> Iterator[Statement]:
    """`The RELATION of SUBJECT is VALUE.`, where the subject's paragraph has the value."""
    paragraphs = {title: " ".join(map(str.strip, sentences)) for title, sentences in record["context"]}
    others = sorted({name for text in paragraphs.values() for name, _ in name_runs(text)})
    for subject, relation, value in record["evidences"]:
        for title, text in paragraphs.items():
            if re.sub(r"\s*\([^()]*\)$", "", title) == subject and value in text:
                statement = f"The {relation} of {subject} is {value}."
                yield from edits(f"{title}: {text}", statement, others, "2wiki", record["_id"], rng)


def former_scores(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The entailment model before this one: coverage and similarity, with names, numbers and negation as conditions."""
    encoder, stemmed = sentence_encoder(), Stemmed()
    scores = []
    for premise, hypothesis in pairs:
        sentences = [premise, *split_sentences(premise)]
        vectors = encoder.encode([*sentences, hypothesis])
        similarities = vectors[:-1] @ vectors[-1]
        words, stems = content_words(hypothesis), stemmed(premise)
        weights = [0.2 + rarity for rarity in encoder.rarity(words)]
        covered = sum(w for w, word in zip(weights, words, strict=True) if stemmed.word(word) in stems)
        logit = -4.9 + 5.1 * float(similarities.max()) + 8.4 * covered / (sum(weights) or 1)
        if {stemmed.word(name) for name in names(hypothesis)} - stems or numbers(hypothesis) - numbers(premise):
            logit -= 9.0
        if negated(hypothesis) != negated(sentences[int(np.argmax(similarities))]):
            logit -= 3.0
        scores.append(float(expit(logit)))
    return scores
