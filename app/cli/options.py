"""The options that several commands share, each with its environment variable; and groups of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import typer

from knowgap.errors import UsageError

Program = Annotated[str, typer.Option("--program", "-p", envvar="KNOWGAP_PROGRAM", help="Program: see `knowgap ls`.")]
Lm = Annotated[
    str | None,
    typer.Option(
        "--lm",
        envvar="KNOWGAP_LM",
        help="Language model: a DSPy name (openai/…, ollama_chat/…), hf/PATH, or extractive (embedded; the default).",
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option("--api-base", envvar="KNOWGAP_API_BASE", help="Endpoint of an OpenAI-compatible server."),
]
Data = Annotated[
    str,
    typer.Option("--data", "-d", envvar="KNOWGAP_DATA", help="Data set: a name of `knowgap ls`, a file or a folder."),
]
Corpus = Annotated[
    Path | None,
    typer.Option("--corpus", help="Passages (JSON Lines or TSV) instead of those that come with the questions."),
]
Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        "-i",
        envvar="KNOWGAP_INDEX",
        help="Index folder, or the URL of `knowgap serve-index`. Without it, one is made of the data's own passages.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        envvar="KNOWGAP_ENGINE",
        help="Index engine: colbert (late interaction of token vectors), bm25 (words in common), dense (one vector a "
        "passage), hybrid (these three, fused by rank) or qdrant (late interaction in a Qdrant store or server).",
    ),
]
Quality = Annotated[
    str | None,
    typer.Option(
        "--quality", help="How thoroughly a large ColBERT index is searched: fast, balanced (the default) or exact."
    ),
]
Split = Annotated[str, typer.Option("--split", help="Split: train, dev or test.")]
Whole = Annotated[bool, typer.Option("--whole", help="Take all questions of the data as that split, undivided.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", help="The first so many questions only.")]
Seed = Annotated[int, typer.Option("--seed", envvar="KNOWGAP_SEED", help="Seed of all that is drawn at random.")]
Threads = Annotated[
    int, typer.Option("--num-threads", envvar="KNOWGAP_NUM_THREADS", min=1, help="Questions answered at once.")
]
Workers = Annotated[
    int,
    typer.Option(
        "--num-workers", envvar="KNOWGAP_NUM_WORKERS", help="Processes on this machine that share the study's trials."
    ),
]
OutputDir = Annotated[
    Path | None,
    typer.Option("--output-dir", "-o", envvar="KNOWGAP_OUTPUT_DIR", help="Folder for what the command writes."),
]
StudyName = Annotated[str | None, typer.Option("--study-name", help="Name of the study; the same name continues it.")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        envvar="KNOWGAP_STORAGE",
        help="Where the study is kept: a .db or .journal file, or a database URL. [default: in the output folder]",
    ),
]
Trials = Annotated[int, typer.Option("--n-trials", min=1, help="Trials in all, earlier runs of the study included.")]
Teacher = Annotated[str | None, typer.Option("--teacher-lm", help="Language model that shows how, for demonstrations.")]
Mode = Annotated[
    str, typer.Option("--mode", help="single: the score alone; pareto: the score against the cost, without pruning.")
]
Cost = Annotated[str, typer.Option("--cost", help="What counts as cost: lm_calls, tokens, passages, seconds, …")]
Rule = Annotated[
    str,
    typer.Option("--rule", help="Which trial is chosen: best, 'within 0.02' (cheapest so near), 'under 12' (calls)."),
]
Prune = Annotated[
    bool, typer.Option("--prune/--no-prune", help="Stop a trial early that falls behind, or has little to gain.")
]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", help="End the study after so many LM calls.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="End the study after so many tokens.")]
MaxMoney = Annotated[float | None, typer.Option("--max-money", help="End the study after so many US dollars.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask nothing; estimate calls, tokens and price of the study.")]
Prices = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--prices", help="US dollars per million prompt and completion tokens, where DSPy does not know them."
    ),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="End this call of the study after so many seconds.")]
Artifact = Annotated[
    Path | None, typer.Option("--artifact", "-a", help="Folder of a compiled program, instead of --program.")
]
Preset = Annotated[
    str | None, typer.Option("--preset", help="The paper's settings for a family of tasks: see `knowgap ls PROGRAM`.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="A hyperparameter, as name=value. Can be repeated.")
]
Reranker = Annotated[
    str | None,
    typer.Option("--reranker", help="Cross-encoder by path or hub name, or embedded; for programs that rerank."),
]
Entailment = Annotated[
    str | None,
    typer.Option("--entailment", help="Entailment model by path or hub name, or embedded; for programs that check it."),
]
Metric = Annotated[
    list[str] | None,
    typer.Option("--metric", "-m", help="Metric: see `knowgap ls metrics`; the first is optimized. Can be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@dataclass(frozen=True)
class Subject:
    """What is worked on: a program, its data and its index."""

    program: Program = "migres"
    artifact: Artifact = None
    data: Data = "sample"
    corpus: Corpus = None
    folder: Index = None
    engine: Engine = "colbert"
    quality: Quality = None


@dataclass(frozen=True)
class Model:
    """The language model that is asked."""

    lm: Lm = None
    api_base: ApiBase = None


@dataclass(frozen=True)
class Search:
    """How something better is searched for, within which limits, and where it goes.

    Raises:
        UsageError: fewer than one worker.
    """

    preset: Preset = None
    settings: Settings = None
    metric: Metric = None
    limit: Limit = None
    n_trials: Trials = 20
    study_name: StudyName = None
    storage: Storage = None
    mode: Mode = "single"
    cost: Cost = "lm_calls"
    rule: Rule = "best"
    prune: Prune = True
    max_calls: MaxCalls = None
    max_tokens: MaxTokens = None
    max_money: MaxMoney = None
    timeout: Timeout = None
    prices: Prices = None
    dry_run: DryRun = False
    seed: Seed = 0
    num_threads: Threads = 4
    num_workers: Workers = 1
    output_dir: OutputDir = None

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise UsageError(f"--num-workers {self.num_workers}: at least one process has to work on the study")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: each parameter that is a dataclass stands for its fields, in their order.

    The parameters are keyword-only, since groups, which have no default, may follow options, which have one.
    """
    own = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {name: p.annotation for name, p in own.parameters.items() if is_dataclass(p.annotation)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        if name not in groups:
            parameters.append(parameter)
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            parameter.replace(name=field.name, default=field.default, annotation=hints[field.name])
            for field in fields(groups[name])
        ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    cast("Any", run).__signature__ = own.replace(parameters=parameters)
    return run
