"""The options that several commands share, each with its environment variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Split = Annotated[str, typer.Option("--split", help="Split: train, dev or test.")]
Whole = Annotated[bool, typer.Option("--whole", help="Take all questions of the data as that split, undivided.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", help="The first so many questions only.")]
Seed = Annotated[int, typer.Option("--seed", envvar="KNOWGAP_SEED", help="Seed of all that is drawn at random.")]
Threads = Annotated[
    int, typer.Option("--num-threads", envvar="KNOWGAP_NUM_THREADS", min=1, help="Questions answered at once.")
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
Prune = Annotated[bool, typer.Option("--prune/--no-prune", help="Stop a trial early that does worse than the best.")]
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
    str | None, typer.Option("--reranker", help="Cross-encoder by path or hub name, for programs that rerank.")
]
Entailment = Annotated[
    str | None, typer.Option("--entailment", help="Entailment model by path or hub name, for programs that check it.")
]
Metric = Annotated[
    list[str] | None,
    typer.Option("--metric", "-m", help="Metric: see `knowgap ls metrics`; the first is optimized. Can be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
