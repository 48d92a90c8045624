"""Fits how the embedded reader ranks the spans that its head proposes: a small network over features of each.

It learns from questions that the head was not trained on: of squadshifts, whole questions and sub-questions of
HotpotQA's and 2WikiMultihopQA's training sets on their gold paragraphs, and attributes of the latter (`reading_made`).
A part of them is read with sentences of other passages, and a part without those that have the answer, so that the
network learns when there is none.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bundled_models.reading_examples import ReadingExample, for_ranking, hotpot_records, in_layout, paragraphs_of
from bundled_models.reading_made import attribute_examples
from knowgap.compiling.evaluation.metrics.answers import token_f1
from knowgap.lms.embedded.reading import coverages, features
from knowgap.lms.embedded.span_head import Ranking, SpanHead
from knowgap.lms.embedded.text import Sentence, analyse
from knowgap.retrieval.sentences import split_sentences
from knowgap.storage.files import write_json

_UNITS, _EPOCHS, _BATCH, _RATE, _DECAY = 8, 15, 32, 5e-3, 1e-3
_ALIKE, _RIGHT = 0.3, 0.5  # F1 below which a span counts as wrong; that which one needs for the answer to be there


class RankingExample(NamedTuple):
    """A question, the (title, text) of its passages, its answers, and passages on the same matter without them."""

    question: str
    passages: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()


def ranking_examples(
    folder: str | Path, held_out: Sequence[ReadingExample], most: int, seed: int = 0
) -> list[RankingExample]:
    """Read what the network is fitted to.

    Args:
        folder: has `hotpot_train*.json`, `hotpot_questions.jsonl` with its corpus, `2wiki_train*.json`, any of them.
        held_out: questions on one passage each; those of multi-hop sets are left out, since they are in the files.
        most: take so many questions of each source at most.
        seed: of the choice.

    Raises:
        DataError: a file is not in its layout.
    """
    sources: dict[str, list[RankingExample]] = {}
    alike: dict[str, dict[tuple[str, str], None]] = {}
    for e in held_out:
        alike.setdefault(e.group, {})[e.title, e.text] = None
    for e in held_out:
        if e.answers and e.source not in ("2wiki", "hotpot", "attributes", "documents"):
            answers = tuple(e.text[slice(*place)] for place in e.answers)
            passages, others = ((e.title, e.text),), _without(answers, alike[e.group])
            sources.setdefault(e.source, []).append(RankingExample(e.question, passages, answers, others))
    with in_layout(folder):
        files = sorted(Path(folder).rglob("2wiki_train*.json"))
        records = {
            "hotpot": [*filter(for_ranking, hotpot_records(folder))],
            "2wiki": [r for file in files for r in json.loads(file.read_text("utf-8")) if for_ranking(r)],
        }
        sources |= {name: [made for record in own for made in _multi_hop(record)] for name, own in records.items()}
        golden = [
            (title, texts[title])
            for own in records.values()
            for record in own
            for texts, gold in [paragraphs_of(record)]
            for title in gold
        ]
    sources["attributes"] = [
        RankingExample(e.question, ((e.title, e.text),), tuple(e.text[slice(*place)] for place in e.answers))
        for e in attribute_examples(golden, random.Random(seed))
    ]
    rng = random.Random(seed)
    return [made for own in sources.values() for made in rng.sample(own, min(most, len(own)))]


def _multi_hop(record: dict[str, Any]) -> Iterator[RankingExample]:
    """A question and its sub-questions, if they are worded, on its gold paragraphs; yes/no questions are left out."""
    gold = {title for title, _ in record["supporting_facts"]}
    given = [(title, " ".join(map(str.strip, text))) for title, text in record["context"]]
    passages = tuple(passage for passage in given if passage[0] in gold)
    asked = [(record["question"], record["answer"])]
    facts = record.get("evidences", ())
    if len(steps := record.get("qa_pairs", ())) == len(facts):
        asked += [(step["question"], fact[2]) for step, fact in zip(steps, facts, strict=True)]
    for question, answer in asked:
        if answer.casefold() not in ("yes", "no"):
            others = _without((answer,), [passage for passage in given if passage not in passages])
            yield RankingExample(question, passages, (answer,), others)


def _without(answers: Sequence[str], passages: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(p for p in passages if not any(answer.casefold() in p[1].casefold() for answer in answers))


def _sentences(example: RankingExample, others: Sequence[RankingExample], rng: random.Random) -> list[Sentence]:
    """All sentences of an example or the nearest few, some with those of other passages, some without the answer."""
    passages, kind = example.passages, rng.random()
    if kind < 0.2:
        passages += rng.choice(others).passages
    elif kind < 0.6:
        passages += tuple(rng.sample(example.others, min(3, len(example.others))))
    found = [
        analyse(part, title, number, order)
        for number, (title, text) in enumerate(passages, start=1)
        for order, part in enumerate(split_sentences(text))
    ]
    answering = [s for s in found if any(a.casefold() in s.text.casefold() for a in example.answers)]
    without = rng.random() < 0.4
    if without:
        found = [s for s in found if s not in answering]
    if kind > 0.6:  # a few sentences, as in a note
        scores = coverages(example.question, found)
        nearest = sorted(range(len(found)), key=lambda i: -scores[i])[: rng.choice((1, 1, 2, 3))]
        found = [s for i, s in enumerate(found) if i in nearest or (s in answering and not without)]
    return found


class _Rated(NamedTuple):
    matrix: npt.NDArray[np.float32]  # [spans + 1, features]
    worth: npt.NDArray[np.float32]  # F1 of each span; 1 of "not there" where no span is right


def _rated(head: SpanHead, examples: Sequence[RankingExample], rng: random.Random) -> Iterator[_Rated]:
    for example in examples:
        asked = example.question if rng.random() < 0.7 else example.question.lower().rstrip("?")  # as in a search
        spans, matrix = features(asked, _sentences(example, examples, rng), head)
        scores = [max((token_f1(text, answer) for answer in example.answers), default=0.0) for text, _ in spans]
        there = max(scores, default=0.0) >= _RIGHT
        worth = [score if there and score >= _ALIKE else 0.0 for score in scores]
        if spans:
            yield _Rated(matrix.astype(np.float32), np.array([*worth, float(not there)], np.float32))


def train_ranking(folder: str | Path, examples: Sequence[RankingExample], seed: int = 0) -> None:
    """Fit the network, and write it into the settings of a trained head.

    The loss is the negative logarithm of the expected F1 of a span drawn by its probability.

    Args:
        folder: of the head.
        examples: see `ranking_examples`; without any, nothing is written.
        seed: of what is left out of the examples, and of the network.
    """
    if rated := list(_rated(SpanHead(folder), examples, random.Random(seed))):
        path = Path(folder) / "span_head.json"
        rows = {
            name: np.round(values.astype(float), 4).tolist() for name, values in _fit(rated, seed)._asdict().items()
        }
        write_json(path, {**json.loads(path.read_text("utf-8")), "ranking": rows})


def _fit(examples: Sequence[_Rated], seed: int) -> Ranking:
    """Train the network; the features' means and deviations go into its first layer."""
    import torch

    torch.manual_seed(seed)
    rows = torch.from_numpy(np.concatenate([example.matrix for example in examples]))
    mean, deviation = rows.mean(0), rows.std(0).clamp_min(0.05)
    first, last = torch.nn.Linear(rows.shape[1], _UNITS), torch.nn.Linear(_UNITS, 1, bias=False)
    optimizer = torch.optim.AdamW([*first.parameters(), *last.parameters()], lr=_RATE, weight_decay=_DECAY)
    steps = _EPOCHS * -(-len(examples) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
    order = random.Random(seed)
    for _ in range(_EPOCHS):
        shuffled = order.sample(list(examples), len(examples))
        for start in range(0, len(shuffled), _BATCH):
            batch = shuffled[start : start + _BATCH]
            stacked = (torch.from_numpy(np.concatenate([example.matrix for example in batch])) - mean) / deviation
            logits = last(torch.tanh(first(stacked)))[:, 0].split([len(example.worth) for example in batch])
            expected = [
                (own.softmax(0) * torch.from_numpy(example.worth)).sum()
                for own, example in zip(logits, batch, strict=True)
            ]
            optimizer.zero_grad()
            (-(torch.stack(expected) + 1e-6).log().mean()).backward()
            optimizer.step()
            schedule.step()
    hidden = (first.weight / deviation).detach()
    return Ranking(hidden.numpy(), (first.bias.detach() - hidden @ mean).numpy(), last.weight.detach().numpy()[0])
