"""Commands that look and ask: ls, index, search, ask."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import Report, out, progress, remark, show_table
from knowgap.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from knowgap.retrieval.passage import Passage

__all__ = [
    "COMMANDS",
    "ask",
    "doctor",
    "index",
    "load_lm",
    "load_program",
    "ls",
    "open_index",
    "search",
    "serve_index",
    "size",
]


def ls(
    what: Annotated[
        str, typer.Argument(help="programs, datasets, metrics, costs, optimizers, or a program's name.")
    ] = "all",
    as_json: o.Json = False,
) -> None:
    """List programs, data sets, metrics, costs and optimizers; or one program's hyperparameters."""
    from knowgap.compile.data import DATASETS
    from knowgap.compile.demonstrations.optimizers import OPTIMIZERS
    from knowgap.compile.evaluation.metrics import COST_METRICS, METRICS
    from knowgap.programs import PROGRAMS, get_program

    if what in PROGRAMS:
        _describe(what, as_json)
        return
    shelves: dict[str, dict[str, str]] = {
        "programs": {name: _first_line(get_program(name)) for name in PROGRAMS},
        "datasets": dict(DATASETS),
        "metrics": {name: _first_line(metric) for name, metric in METRICS.items()},
        "costs": {name: _first_line(metric) for name, metric in COST_METRICS.items()},
        "optimizers": {name: optimizer.summary for name, optimizer in OPTIMIZERS.items()},
    }
    if what != "all" and what not in shelves:
        raise UnknownName.among("program or list", what, [*shelves, *PROGRAMS])
    chosen = shelves if what == "all" else {what: shelves[what]}
    if as_json:
        out.print_json(json.dumps(chosen))
        return
    for name, entries in chosen.items():
        show_table(name, ["name", "what it is"], list(entries.items()))


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0] if thing.__doc__ else ""


def _describe(name: str, as_json: bool) -> None:
    from knowgap.programs import get_program

    cls = get_program(name)
    declared = cls.hyperparameters()
    if as_json:
        rows = {key: {"default": h.default, "bounds": h.bounds, "help": h.help} for key, h in declared.items()}
        out.print_json(json.dumps({"program": name, "hyperparameters": rows, "presets": dict(cls.presets)}))
        return
    show_table(
        f"{name}: {_first_line(cls)}",
        ["hyperparameter", "default", "bounds", "what it does"],
        [[key, h.default, h.bounds, h.help] for key, h in declared.items()],
    )
    if cls.presets:
        settings = [[key, ", ".join(f"{k}={v}" for k, v in values.items())] for key, values in cls.presets.items()]
        show_table("presets", ["preset", "settings"], settings)


def index(
    folder: Annotated[Path, typer.Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Folder to build.")],
    data: Annotated[str | None, typer.Option("--data", "-d", help="Data set whose passages are indexed.")] = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", help="Passages: JSON Lines or TSV.")] = None,
    engine: o.Engine = "colbert",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", help="ColBERTv2 checkpoint (or a dense encoder) by path or hub name; embedded if absent."
        ),
    ] = None,
    qdrant_url: Annotated[
        str | None,
        typer.Option(
            "--qdrant-url",
            help="Qdrant server or cluster, http://HOST:6333; its key is read from QDRANT_API_KEY. Without it, qdrant "
            "keeps its store in the folder.",
        ),
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", help="Name of the collection on the Qdrant server. [default: knowgap]")
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, help="Parts of the collection on a Qdrant cluster.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=1, help="Copies of each part on a Qdrant cluster.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another index in the folder, and the Qdrant collection.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Build an index of a data set's passages or of a corpus file; a build that was cut off continues.

    The folder can be moved and copied. That of an index on a Qdrant server holds the address of the collection and what
    encodes queries, so that the other commands take it like any other: --index FOLDER.
    """
    from knowgap.compile.data import read_corpus

    if (data is None) == (corpus is None):
        raise UsageError("name what to index: either --data or --corpus")
    passages = factories.open_data(data).corpus if data is not None else read_corpus(corpus)  # pyright: ignore[reportArgumentType]
    if data is not None and not passages:
        raise UsageError(f"{data} brings no passages: name a file of them with --corpus")
    with progress("indexing") as report:
        built: Any = factories.build_index(
            _counted(passages, report),
            folder,
            engine=engine,
            checkpoint=checkpoint,
            overwrite=overwrite,
            progress=report,
            url=qdrant_url,
            collection=collection,
            shards=shards,
            replicas=replicas,
        )
    digest = getattr(built, "digest", None) or built.manifest.digest
    facts = {"index": str(folder), "engine": engine, "passages": len(built), "digest": digest}
    if as_json:
        out.print_json(json.dumps(facts))
    else:
        out.print(f"{len(built)} passages indexed in {folder} ({engine})", markup=False)


def _counted(passages: Iterable[Passage], report: Report) -> Iterator[Passage]:
    """Passages as they are read, one after another, with a report now and then."""
    for count, passage in enumerate(passages, start=1):
        if count % 10_000 == 0:
            report(count, None, "reading passages")
        yield passage


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    folder: o.Index = None,
    data: o.Data = "sample",
    k: Annotated[int, typer.Option("-k", min=1, help="How many passages.")] = 5,
    engine: o.Engine = "colbert",
    quality: o.Quality = None,
    as_json: o.Json = False,
) -> None:
    """Show the passages that an index finds for a query."""
    if not query.strip():
        raise UsageError("the query is empty: say what to look for")
    hits = open_index(folder, data, engine, quality).search([query], k)[0]
    if as_json:
        found = [{"rank": h.rank, "score": h.score, **h.passage.to_dict()} for h in hits]
        out.print_json(json.dumps({"query": query, "hits": found}))
        return
    rows = [[h.rank, f"{h.score:.3f}", h.passage.title, _short(h.passage.text)] for h in hits]
    show_table(query, ["rank", "score", "title", "text"], rows)


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    program: o.Program = "migres",
    artifact: o.Artifact = None,
    folder: o.Index = None,
    data: o.Data = "sample",
    engine: o.Engine = "colbert",
    quality: o.Quality = None,
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    preset: o.Preset = None,
    settings: o.Settings = None,
    reranker: o.Reranker = None,
    entailment: o.Entailment = None,
    as_json: o.Json = False,
) -> None:
    """Answer a question and show the steps that led there."""
    import dspy
    from dspy.utils.exceptions import LMError

    from knowgap.errors import EmptyQuestion
    from knowgap.lms import as_language_model_error

    if not question.strip():
        raise EmptyQuestion("the question is empty: ask something")
    model = load_lm(lm, api_base)
    retriever = open_index(folder, data, engine, quality)
    built = load_program(program, artifact, retriever, preset, settings, reranker, entailment)
    try:
        with dspy.context(lm=model):
            prediction = built(question=question)
    except LMError as error:
        raise as_language_model_error(error, model) from error
    if as_json:
        passages = [passage.to_dict() for passage in prediction.passages]
        trace = prediction.trace.model_dump(mode="json")
        answer = {"question": question, "answer": prediction.answer, "passages": passages, "trace": trace}
        out.print_json(json.dumps(answer))
        return
    out.print(prediction.trace)
    titles = ", ".join(passage.title or passage.id for passage in prediction.passages)
    out.print(
        f"[bold green]{_escape(prediction.answer)}[/bold green]"
        + (f"  [dim]({_escape(titles)})[/dim]" if titles else "")
    )


def doctor(
    folder: Annotated[
        Path | None, typer.Option("--index", "-i", envvar="KNOWGAP_INDEX", help="An index to look at as well.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Say what this machine has for retrieval, what is missing for which feature, and how to get it."""
    from dataclasses import asdict

    from knowgap.retrieval.doctor import examine

    findings = examine(folder)
    if as_json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        rows = [[f.name, f.state, f.detail, f.serves, f.remedy] for f in findings]
        show_table("what retrieval finds here", ["", "state", "found", "serves", "what to do"], rows)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(2)


def size(
    passages: Annotated[list[int], typer.Argument(min=1, help="How many passages. Can be repeated.")],
    folder: Annotated[
        Path,
        typer.Option("--index", "-i", envvar="KNOWGAP_INDEX", help="ColBERT index of some thousand such passages."),
    ],
    as_json: o.Json = False,
) -> None:
    """Estimate what indexes of many passages take, from what those of a small ColBERT index take."""
    from dataclasses import asdict

    from knowgap.retrieval.index.sizing import estimate_sizes, measure_passages

    sample = measure_passages(folder)
    estimates = [row for count in passages for row in estimate_sizes(sample, count)]
    if as_json:
        out.print_json(json.dumps({"measured": asdict(sample), "estimates": [asdict(row) for row in estimates]}))
        return
    show_table(
        "estimated sizes",
        ["engine", "passages", "vectors", "on disk", "in memory"],
        [[row.engine, f"{row.passages:,}", f"{row.vectors:,}", _gigabytes(row.disk), _gigabytes(row.memory)]
         for row in estimates],
        caption=f"average of {sample.passages:,} passages: {sample.tokens:.1f} token vectors, {sample.words:.1f} "
        f"words, {sample.text:.0f} bytes",
    )  # fmt: skip


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def serve_index(
    folder: Annotated[Path, typer.Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Index folder.")],
    quality: o.Quality = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; the default is this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8893,
) -> None:
    """Serve an index over HTTP, in the protocol of dspy.ColBERTv2, until it is interrupted."""
    from knowgap.retrieval import IndexServer

    retriever = factories.open_retriever(folder, quality=quality)
    server = IndexServer(retriever, host=host, port=port)
    remark(f"serving {folder} at {server.url}; stop it with Ctrl-C")
    with suppress(KeyboardInterrupt):
        server.serve_forever()


def load_lm(name: str | None, api_base: str | None) -> Any:
    """The language model of the options, with a remark where none was named."""
    if name is None:
        remark(factories.EMBEDDED_NOTICE)
    return factories.language_model(name, api_base)


def load_program(
    program: str,
    artifact: Path | None,
    retriever: Any,
    preset: str | None = None,
    settings: list[str] | None = None,
    reranker: str | None = None,
    entailment: str | None = None,
) -> Any:
    """The program of the options: a compiled one, or a named one with its settings."""
    if artifact is None:
        return factories.make_program(
            program, retriever, preset=preset, settings=settings or [], reranker=reranker, entailment=entailment
        )
    from knowgap.compile import load_artifact

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        built = load_artifact(artifact, retriever=retriever)
    for warning in caught:
        remark(f"warning: {warning.message}")
    return built.configure(**factories.parse_settings(settings or []))


def open_index(folder: str | None, data: Any, engine: str, quality: str | None) -> Any:
    """The index of the options; without one, that of the passages of a data set, built at first use.

    Args:
        folder: the value of --index.
        data: the data set, or the value of --data, which is opened only if it is needed.
        engine: the value of --engine.
        quality: the value of --quality.
    """
    if folder is not None:
        return factories.open_retriever(folder, quality=quality)
    opened = factories.open_data(data) if isinstance(data, str) else data
    with progress(f"indexing {opened.name}") as report:
        return factories.open_retriever(None, opened, engine=engine, quality=quality, progress=report)


def _short(text: str, width: int = 160) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


COMMANDS = {
    "ls": ls,
    "index": index,
    "search": search,
    "ask": ask,
    "size": size,
    "serve-index": serve_index,
    "doctor": doctor,
}
