"""Ask the programs of docs/results.md the questions of the public data sets, and record their answers.

    python benchmarks/record.py --data DATA --work FOLDER --model Qwen2.5-Coder-1.5B --api-base http://127.0.0.1:8081/v1

A row of `ROWS` is asked after another. Every answer stands in `--work` as soon as it arrives, and the same command goes
on from there, of the same commit. A row that is complete is written to `--to`, without the texts of the data sets, and
not asked again while it is there; `benchmarks/results.py` prints the tables of benchmarks/recorded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from results import RECORDED, WITHOUT_GOLD
from table import FILES, note, real_file

import knowgap
from knowgap.compiling import evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics.answers import contains_answer, reference_answers
from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.compiling.run import Run
from knowgap.programs.trace.steps import Filtered
from knowgap.retrieval import make_reranker

LARGE, SMALL = "Qwen2.5-Coder-1.5B", "Qwen2.5-Coder-0.5B"
HOTPOT, WIKI = "HotpotQA", "2WikiMultihopQA"


class Row(NamedTuple):
    """A row of the tables: a model, a set of questions, a program with its settings, and how many questions."""

    model: str
    questions: str
    program: str
    count: int
    settings: Mapping[str, Any] = {}

    @property
    def label(self) -> str:
        """The program, with what is not its default."""
        return ", ".join([self.program, *(f"{name}={value}" for name, value in self.settings.items())])


ONCE, SHALLOW, RERANKED = {"iterations": 1}, {"depth": 1}, {"reranker": "ms-marco-MiniLM-L-12-v2"}
ROWS = (
    *(Row(LARGE, name, program, 40) for program in ("knowgap", "rag") for name in (HOTPOT, WIKI)),
    *(Row(LARGE, name, "ircot", 20) for name in (HOTPOT, WIKI)),
    Row(LARGE, WIKI, "knowgap", 40, ONCE),
    Row(LARGE, WIKI + WITHOUT_GOLD, "knowgap", 20),
    Row(LARGE, WIKI + WITHOUT_GOLD, "knowgap", 20, ONCE),
    Row(LARGE, WIKI, "knowgap", 20, RERANKED),
    *(Row(LARGE, WIKI, program, 20) for program in ("migres", "adaptive_note")),
    *(
        Row(SMALL, name, program, 20)
        for program in ("rag", "knowgap", "ircot", "migres", "adaptive_note", "blend_filter")
        for name in (HOTPOT, WIKI)
    ),
    *(Row(SMALL, WIKI, program, 20, SHALLOW) for program in ("ra_isf", "rq_rag")),
)


def main() -> None:
    """Read the command line, and ask what is not recorded yet."""
    parser = argparse.ArgumentParser(description="Record the answers of the programs for docs/results.md.")
    parser.add_argument("--data", type=Path, required=True, help="folder of hotpotqa/ and 2wikimultihopqa/")
    parser.add_argument("--work", type=Path, required=True, help="folder of indexes and of answers so far")
    parser.add_argument("--model", choices=(LARGE, SMALL), required=True, help="the model that answers")
    parser.add_argument("--lm", help="its name for DSPy (openai/MODEL)")
    parser.add_argument("--api-base", help="the address of its server")
    parser.add_argument("--models", type=Path, default=Path(), help="folder of the cross-encoder's folder")
    parser.add_argument("--num-threads", type=int, default=2, help="questions asked at a time (2)")
    parser.add_argument("--to", type=Path, default=RECORDED, help="folder of the recordings (benchmarks/recorded)")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
    served = {"api_base": options.api_base, "api_key": "none", "timeout": 900, "temperature": 0.0, "cache": False}
    lm = knowgap.make_lm(options.lm or f"openai/{options.model}", **(served if options.api_base else {}))
    options.to.mkdir(parents=True, exist_ok=True)
    for order, row in enumerate(ROWS):
        name = "-".join([row.model, row.questions.replace(" ", "-"), row.label.replace(", ", "-")]).lower()
        if row.model != options.model or (options.to / f"{name}.jsonl").exists():
            continue
        if (data := _data(options, row.questions)) is not None:
            index = knowgap.build_index(data.corpus, options.work / f"index of {row.questions}")
            models = {n: make_reranker(str(options.models / at)) for n, at in row.settings.items() if n in RERANKED}
            program = knowgap.get_program(row.program)(index, **{**row.settings, **models})
            run = Run(lm=lm, num_threads=options.num_threads)
            note(f"{row.label}, {row.questions}: {row.count} questions")
            output = options.work / f"{name}.jsonl"
            found = evaluate(program, data, ("f1", "exact_match"), run=run, limit=row.count, output=output, traces=True)
            about = {"label": row.label, "order": order, "temperature": 0, "commit": commit.stdout.strip()}
            lines = (row._asdict() | about, *_lines(row, found.records))
            recorded = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (options.to / f"{name}.jsonl").write_text(recorded, encoding="utf-8")


def _data(options: argparse.Namespace, questions: str) -> Dataset | None:
    """The questions of a row; those without gold passages are the ones whose answer stands in no other passage."""
    name = questions.removesuffix(WITHOUT_GOLD)
    if (file := real_file(options, FILES[name])) is None:
        return None
    data = load_dataset(file, split_as="dev")
    if name == questions:
        return data
    asked, gold = [], set[str]()
    for example in data.splits["dev"]:
        others = [passage for passage in data.corpus if passage.id not in example.gold_ids]
        answers = reference_answers(example)
        if example.answer not in ("yes", "no") and not any(contains_answer(str(p), answers) for p in others):
            asked.append(example.copy(gold_ids=[]))
            gold |= {*example.gold_ids}
    return replace(data, splits={"dev": asked}, corpus=[passage for passage in data.corpus if passage.id not in gold])


def _lines(row: Row, records: list[QuestionRecord]) -> Iterator[dict[str, Any]]:
    """What is recorded of each question: nothing of its data set but its id."""
    for record in records:
        cost, scores, gold = record.cost, record.scores, {*record.gold}
        read = [{*step.kept, *step.dropped} for step in record.trace.of(Filtered)] if record.trace else []
        answering = scores.get("shown") if row.program in ("rag", "ircot") else None
        if row.program == "knowgap" and read and gold:
            answering = len(read[-1] & gold) / len(gold)
        named = {*record.passages} & gold
        line = {
            "id": record.id,
            "answer": record.answer[:200],
            **{name: scores.get(name) for name in ("f1", "exact_match", "found")},
            "answering": answering,
            "named": len(named) / len(gold) if gold else None,
            "precision": len(named) / max(1, len(record.passages)) if gold else None,
            "supported": record.supported,
            "searches": cost.retrievals,
            "calls": cost.lm_calls,
            "tokens": cost.prompt_tokens + cost.completion_tokens,
            "seconds": cost.seconds,
            "unreadable": cost.unreadable,
            "cut": cost.cut,
            "error": record.error[:200] or None,
        }
        yield {key: round(v, 4) if isinstance(v, float) else v for key, v in line.items() if v is not None}


if __name__ == "__main__":
    main()
