"""Commands for indexes: index, search, size, serve-index, doctor."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import Report, out, progress, remark, show_table
from knowgap.cli.given import grouped, refuse
from knowgap.cli.running.stopping import leave_ctrl_c_to_the_server
from knowgap.errors import UsageError

if TYPE_CHECKING:
    from knowgap.retrieval.passage import Passage

__all__ = ["COMMANDS", "doctor", "index", "search", "serve_index", "size"]

_CHECKPOINT_ARGUMENTS = {"colbert": "checkpoint", "dense": "encoder", "qdrant": "checkpoint"}


@dataclass(frozen=True)
class QdrantOptions:
    """The collection of an index in Qdrant."""

    url: Annotated[
        str | None,
        Option(
            "--qdrant-url",
            help="Qdrant server or cluster, https://HOST:6333; its key is read from QDRANT_API_KEY, and other commands "
            "send it only to the server in QDRANT_URL. Without it, qdrant keeps its store in the folder.",
        ),
    ] = None
    collection: Annotated[
        str | None, Option("--collection", help="Name of the collection on the Qdrant server. [default: knowgap]")
    ] = None
    shards: Annotated[int | None, Option("--shards", min=1, help="Parts of the collection on a Qdrant cluster.")] = None
    replicas: Annotated[int | None, Option("--replicas", min=1, help="Copies of each part on a Qdrant cluster.")] = None


@grouped
def index(
    *,
    folder: Annotated[Path, Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Folder to build.")],
    data: Annotated[str | None, Option("--data", "-d", help="Data set whose passages are indexed.")] = None,
    corpus: Annotated[Path | None, Option("--corpus", help="Passages: JSON Lines or TSV.")] = None,
    engine: o.Engine = None,
    checkpoint: Annotated[
        str | None,
        Option(
            "--checkpoint", help="ColBERTv2 checkpoint (or a dense encoder) by path or hub name; embedded if absent."
        ),
    ] = None,
    qdrant: QdrantOptions,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace another index in the folder, and the Qdrant collection.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Build an index of a data set's passages or of a corpus file; a build that was cut off continues.

    The folder can be moved and copied. That of an index on a Qdrant server holds the address of the collection and what
    encodes queries, so that the other commands take it like any other: --index FOLDER.
    """
    from knowgap.retrieval.index.engines import engine_class

    engine = engine or o.NEW_INDEX
    options = {name: value for name, value in vars(qdrant).items() if value is not None}
    if options and engine != "qdrant":
        names = ", ".join("--qdrant-url" if name == "url" else f"--{name}" for name in options)
        raise UsageError(f"{names}: goes with --engine qdrant, not with {engine}")
    build = engine_class(engine).build
    if checkpoint is not None:
        if engine not in _CHECKPOINT_ARGUMENTS:
            raise UsageError(f"--checkpoint goes with --engine {', '.join(_CHECKPOINT_ARGUMENTS)}; {engine} takes none")
        options[_CHECKPOINT_ARGUMENTS[engine]] = checkpoint
    passages = _read_passages(data, corpus)
    with progress("indexing") as report:
        built = build(_reporting(passages, report), folder, overwrite=overwrite, progress=report, **options)
    with factories.closing(built):
        digest = getattr(built, "digest", None) or built.manifest.digest
        facts = {"index": str(folder), "engine": engine, "passages": len(built), "digest": digest}
    if as_json:
        out.print_json(json.dumps(facts))
    else:
        out.print(f"{facts['passages']} passages indexed in {folder} ({engine})", markup=False)


def _read_passages(data: str | None, corpus: Path | None) -> Iterable[Passage]:
    """The passages of a data set or of a file; exactly one of them must be named."""
    from knowgap.compile.data import load_dataset, read_corpus

    if corpus is not None and data is None:
        return read_corpus(corpus)
    if data is None or corpus is not None:
        raise UsageError("name what to index: either --data or --corpus")
    dataset = load_dataset(data)
    if not dataset.corpus:
        raise UsageError(f"{data} brings no passages: name a file of them with --corpus")
    return dataset.corpus


def _reporting(passages: Iterable[Passage], report: Report) -> Iterator[Passage]:
    """Pass passages on, and report how many were read after every 10,000."""
    for count, passage in enumerate(passages, start=1):
        if count % 10_000 == 0:
            report(count, None, "reading passages")
        yield passage


@grouped
def search(
    *,
    query: Annotated[str, Argument(help="What to look for.")],
    options: o.IndexOptions,
    k: Annotated[int, Option("-k", min=1, help="How many passages.")] = 5,
    as_json: o.Json = False,
) -> None:
    """Show the passages that an index finds for a query."""
    if not query.strip():
        raise UsageError("the query is empty: say what to look for")
    with factories.open_index(options) as retriever:
        [hits] = retriever.search([query], k)
    if as_json:
        records = [{"rank": hit.rank, "score": hit.score, **hit.passage.to_dict()} for hit in hits]
        out.print_json(json.dumps({"query": query, "hits": records}))
        return
    rows = [
        [hit.rank, f"{hit.score:.3f}", hit.passage.title, textwrap.shorten(hit.passage.text, 160, placeholder="…")]
        for hit in hits
    ]
    show_table(query, ["rank", "score", "title", "text"], rows)


def size(
    passages: Annotated[list[int], Argument(min=1, help="How many passages. Can be repeated.")],
    folder: Annotated[
        Path,
        Option("--index", "-i", envvar="KNOWGAP_INDEX", help="ColBERT index of some thousand such passages."),
    ],
    as_json: o.Json = False,
) -> None:
    """Estimate what indexes of many passages take, from what those of a small ColBERT index take."""
    from knowgap.retrieval.index.sizing import estimate_sizes, measure_passages

    sample = measure_passages(folder)
    estimates = [estimate for count in passages for estimate in estimate_sizes(sample, count)]
    if as_json:
        rows: Any = [asdict(estimate) for estimate in estimates]
        out.print_json(json.dumps({"measured": asdict(sample), "estimates": rows}))
        return
    rows = [
        [e.engine, f"{e.passages:,}", f"{e.vectors:,}", f"{e.disk / 1e9:,.1f} GB", f"{e.memory / 1e9:,.1f} GB"]
        for e in estimates
    ]
    caption = (
        f"average of {sample.passages:,} passages: {sample.tokens:.1f} token vectors, {sample.words:.1f} words, "
        f"{sample.text:.0f} bytes"
    )
    show_table("estimated sizes", ["engine", "passages", "vectors", "on disk", "in memory"], rows, caption=caption)


def serve_index(
    folder: Annotated[str, Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Index folder.")],
    engine: o.Engine = None,
    quality: o.Quality = None,
    host: Annotated[str, Option("--host", help="Address to listen on; the default is this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8893,
) -> None:
    """Serve an index over HTTP, in the protocol of dspy.ColBERTv2, until it is interrupted."""
    from knowgap.retrieval import IndexServer

    with factories.open_index(o.IndexOptions(folder=folder, engine=engine, quality=quality)) as retriever:
        leave_ctrl_c_to_the_server()
        server = IndexServer(retriever, host=host, port=port)
        with suppress(KeyboardInterrupt):
            remark(f"serving {folder} at {server.url}; stop it with Ctrl-C")
            server.serve_forever()


@grouped
def doctor(
    *,
    folder: Annotated[
        Path | None, Option("--index", "-i", envvar="KNOWGAP_INDEX", help="An index to look at as well.")
    ] = None,
    engine: o.Engine = None,
    as_json: o.Json = False,
) -> None:
    """Say what this machine has for retrieval, what is missing for which feature, and how to get it."""
    from knowgap.retrieval.doctor import examine

    if folder is None:
        refuse(["engine"], "goes with --index")
    findings = examine(folder, engine)
    if as_json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        rows = [[f.name, f.state, f.detail, f.serves, f.remedy] for f in findings]
        show_table("what retrieval finds here", ["", "state", "found", "serves", "what to do"], rows)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(2)


COMMANDS = {"index": index, "search": search, "size": size, "serve-index": serve_index, "doctor": doctor}
