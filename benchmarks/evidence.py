"""What becomes of gold evidence in each method, under a reader that knows it but acts from its prompt alone.

`found`: gold passages that some search of the question returned. `shown`: those that a prompt of the reader held.
`used`: those that the prompt held when the reader answered, themselves or as something taken from them. `answered`:
questions answered exactly. What is lost here is lost by the method's flow; the second table says where.

With `--evidence-reranker`, programs that rerank also run with this cross-encoder: with its own threshold, if it has
one, and with a δ (relevance threshold) that was calibrated on the data set's train questions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from models.gold_questions import GoldQuestion, read_gold_questions, read_triples
from models.knowing_reader import HesitantReader, KnowingReader
from real_data import FILES, real_file
from table import Table, note, some_of

from knowgap.compiling import Evaluation, evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.shared_cache import cache_results
from knowgap.compiling.run import Run
from knowgap.compiling.thresholds import calibrate_delta
from knowgap.programs import get_program
from knowgap.programs.base import Program
from knowgap.retrieval import ColBERTIndex, Passage, make_reranker

DATA = ("sample", "HotpotQA", "2WikiMultihopQA")
TASKS = {"2WikiMultihopQA": "multi_hop_deep"}
"""The family of tasks whose presets a data set is asked with, if it is not `multi_hop`."""
READERS = {"knowing": KnowingReader, "hesitant": HesitantReader}
_CALIBRATING = 40
"""Train questions on which δ is calibrated."""
PROGRAMS = ("knowgap", "rag", "ircot", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


class Questions(NamedTuple):
    """Questions as programs are asked them, the same with what the reader knows of them, and all passages."""

    name: str
    examples: list[dspy.Example]
    gold: list[GoldQuestion]
    corpus: list[Passage]
    train: Dataset | None


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--evidence-questions", type=int, help="questions of each data set at most")
    group.add_argument("--evidence-programs", default=",".join(PROGRAMS), help="programs, joined by commas")
    group.add_argument(
        "--evidence-readers",
        type=some_of(READERS),
        default="knowing",
        help=f"readers, joined by commas: {', '.join(READERS)}",
    )
    group.add_argument(
        "--evidence-data", type=some_of(DATA), default=",".join(DATA), help="data sets, joined by commas: %(default)s"
    )
    group.add_argument("--evidence-reranker", help="folder or hub name of a cross-encoder that programs also run with")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Two tables for each data set."""
    limit = options.evidence_questions or (20 if options.quick else None)
    for name in options.evidence_data:
        path = real_file(options, name, FILES[name]) if name in FILES else None
        if name in FILES and path is None:
            continue
        questions = _load(name, path, limit)
        for reader in options.evidence_readers:
            yield from _tables(questions, options.evidence_programs.split(","), reader, options.evidence_reranker)


def _load(name: str, path: Path | None, limit: int | None) -> Questions:
    """The questions of a file, or of the sample's test split, that have gold evidence."""
    if path is None:
        data = load_dataset("sample")
        examples = [example for example in data.splits["test"] if example.evidences][:limit]
        return Questions(name, examples, read_triples(examples, data.corpus), list(data.corpus), None)
    data = load_dataset(path, split_as="dev", limit=limit)
    others = sorted(path.parent.glob(path.name.split("_")[0] + "*train*.json"))
    train = load_dataset(others[0], split_as="train", limit=_CALIBRATING) if others else None
    return Questions(name, list(data.splits["dev"]), read_gold_questions(path), list(data.corpus), train)


def _tables(questions: Questions, programs: Sequence[str], reader: str, cross_encoder: str | None) -> Iterator[Table]:
    evaluations: dict[tuple[str, str], Evaluation] = {}
    with tempfile.TemporaryDirectory() as folder:
        index = ColBERTIndex.build(questions.corpus, Path(folder) / "index")
        for name in programs:
            kind = get_program(name)
            arms = {"defaults": kind(index)}
            if (task := TASKS.get(questions.name, "multi_hop")) in kind.presets:
                arms[f"preset {task}"] = kind.from_preset(task, index)
                if arms[f"preset {task}"].values() == arms["defaults"].values():
                    del arms[f"preset {task}"]
            if cross_encoder and "reranker" in kind.part_names:
                ranking = make_reranker(cross_encoder)
                arms[Path(cross_encoder).name] = kind(index, reranker=ranking)
                if questions.train:
                    over_train = ColBERTIndex.build(questions.train.corpus, Path(folder) / f"train-{name}")
                    calibrated = calibrate_delta(kind(over_train, reranker=ranking), questions.train.splits["train"])
                    delta = calibrated.delta
                    arms[f"{Path(cross_encoder).name}, δ {delta:.2f}"] = kind(index, reranker=ranking, delta=delta)
            for arm, program in arms.items():
                evaluations[name, arm] = _evaluated(program, questions, Path(folder) / "cache", reader)
                note(" ".join([name, arm, *_figures(evaluations[name, arm])]))
    title = f"{questions.name}, {reader} reader: {len(questions.examples)} questions over {len(questions.corpus)} "
    title += "paragraphs"
    yield Table(
        title,
        ["program", "settings", "found", "shown", "used", "answered", "calls", "tokens", "calls / right"],
        [[*key, *_figures(evaluation)] for key, evaluation in evaluations.items()],
        ["found, shown, used: share of gold passages, mean over questions. answered: exact match, in percent."],
    )
    shares = {key: evaluation.evidence() for key, evaluation in evaluations.items()}
    fates = [fate for fate in next(iter(shares.values())) if any(share[fate] for share in shares.values())]
    yield Table(
        f"Where the evidence went, {title}",
        ["program", "settings", *fates],
        [[*key, *(f"{share[fate]:.1%}" for fate in fates)] for key, share in shares.items()],
        ["Shares of gold passages, means over questions."],
    )


def _evaluated(program: Program, questions: Questions, cache: Path, reader: str) -> Evaluation:
    lm = dspy.LM(f"knowgap/{reader}", engine=READERS[reader](questions.gold), cache=False, num_retries=0)
    with cache_results(program, cache) as cached, dspy.context(disable_history=True):
        return evaluate(cached, questions.examples, "exact_match", run=Run(lm=lm, num_threads=2))


def _figures(evaluation: Evaluation) -> list[str]:
    shares = [f"{evaluation.mean(name):.3f}" for name in ("found", "shown", "used")]
    costs = {name: cost or 0.0 for name, cost in evaluation.costs().items()}
    answered, calls = f"{100 * evaluation.mean('exact_match'):.1f}", f"{costs['lm_calls']:.1f}"
    return [*shares, answered, calls, f"{costs['tokens']:.0f}", f"{costs['calls_per_right_answer']:.1f}"]
