"""Commands for indexes: index, search."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.reading import said_of_update, show_reading
from knowgap.errors import UsageError

if TYPE_CHECKING:
    from knowgap.retrieval.passage import Passage

_ENGINE_OPTIONS: dict[str, dict[str, type]] = {
    "colbert": {"checkpoint": str},
    "dense": {"encoder": str},
    "plaid": {"checkpoint": str, "nbits": int},
    "qdrant": {"checkpoint": str, "url": str, "collection": str, "shard_number": int, "replication_factor": int},
}


@dataclass(frozen=True)
class SplittingOptions:
    """How long texts of a corpus are split."""

    split: Annotated[
        Literal["auto", "never"],
        Option("--split", help="auto: split long texts of JSON Lines and TSV; never: not. Documents always are."),
    ] = "auto"
    passage_tokens: Annotated[
        int,
        Option("--passage-tokens", min=32, help="Tokens of a passage at most; fewer if the encoder reads fewer."),
    ] = 256


@o.grouped
def index(
    *,
    folder: Annotated[
        Path,
        Option("--index", "-i", envvar="KNOWGAP_INDEX", parser=o.local_path, metavar="FOLDER", help="Folder to build."),
    ],
    data: Annotated[str | None, Option("--data", "-d", help="Data set whose passages are indexed.")] = None,
    corpus: Annotated[
        str | None,
        Option(
            "--corpus",
            help="Folder of documents (text, Markdown, HTML, CSV; PDF, Word, PowerPoint, Excel with the extra "
            "documents), one document, or passages in JSON Lines, TSV or CSV.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(
            "--column",
            help="The column of a CSV file that is the id, title or text of passages, as title=COLUMN. Can be "
            "repeated; columns that are not named are told by their names.",
        ),
    ] = None,
    engine: o.Engine = None,
    splitting: SplittingOptions,
    engine_option: Annotated[
        list[str] | None,
        Option(
            "--engine-option",
            help="A setting of the engine, as NAME=VALUE. Can be repeated. colbert, plaid and qdrant: checkpoint (as "
            "colbert-ai or PyLate saves it, by path or name; see `knowgap ls checkpoints`; embedded if absent); "
            "dense: encoder (by path or hub name). qdrant: url (https://HOST:6333, with the key in QDRANT_API_KEY, "
            "or a folder; other commands ask only what QDRANT_URL names), collection (knowgap), shard_number and "
            "replication_factor (on a cluster). plaid: nbits (1, 2 or 4).",
        ),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace another index in the folder, and the Qdrant collection.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Build an index of your documents or of a data set's passages; a build that was cut off continues.

    Given again, with the same options, a corpus that has changed: what is new is added, what is gone is removed, and
    what is the same is not encoded again. Long texts are split into passages that the encoder reads whole.

    The folder can be moved and copied. That of an index on a Qdrant server holds the address of the collection and what
    encodes queries, so that the other commands take it like any other: --index FOLDER.
    """
    from knowgap.compiling.data import build_index
    from knowgap.compiling.data.indexing import recorded_engine
    from knowgap.retrieval.documents.reading import Reading
    from knowgap.retrieval.hub import better_checkpoint

    data, corpus = data or None, corpus or None  # the shell expands an unset variable to an empty string
    if (data is None) == (corpus is None):
        raise UsageError("name what to index, with either --data or --corpus (not both)")
    columns = factories.named_values(column, "--column")
    if columns and corpus is None:
        raise UsageError("--column works only with a table: --corpus FILE.csv")
    recorded = recorded_engine(folder) if corpus is not None and not overwrite else None
    engine = engine or recorded or o.NEW_INDEX
    options: dict[str, Any] = _engine_options(engine, factories.named_values(engine_option, "--engine-option"))
    for name, value in vars(splitting).items():
        if corpus is None and value != getattr(SplittingOptions, name):
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option} {value} works only with --corpus: the passages of a data set are not split, since its "
                "questions refer to them"
            )
    source, reading = _passages_of(data or "") if corpus is None else Path(corpus), Reading()
    with progress("indexing") as report:
        options |= {"columns": columns} if corpus is not None else {}
        options |= {"overwrite": overwrite, "reading": reading, "progress": report, **vars(splitting)}
        built: Any = build_index(source, folder, engine=engine, **options)
    show_reading(reading)
    with factories.closing(built):
        digest = getattr(built, "digest", None) or built.manifest.digest
        facts = {"index": str(folder), "engine": engine, "passages": len(built), "digest": digest}
    update = reading.update
    if as_json:
        read = {name: value for name, value in vars(reading).items() if name != "update"}
        out.print_json(json.dumps({**facts, "update": update and asdict(update), "reading": read}))
    else:
        said = f"{facts['passages']} passages indexed" if update is None else said_of_update(update)
        out.print(f"{said} in {folder} ({engine})", markup=False)
    embedded = "checkpoint" in _ENGINE_OPTIONS.get(engine, {}) and "checkpoint" not in options
    if update is None and embedded and (better := better_checkpoint("--engine-option checkpoint=NAME --overwrite")):
        remark(better)


def _engine_options(engine: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of an engine's `build` that --engine-option sets."""
    known = _ENGINE_OPTIONS.get(engine, {})
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"--engine-option {name}: the settings of {engine} are {', '.join(known) or 'none'}")
        if known[name] is int and not (value.isdecimal() and int(value)):
            raise UsageError(f"--engine-option {name}={value}: write a whole number of at least 1")
    return {name: known[name](value) for name, value in given.items()}


def _passages_of(data: str) -> Sequence[Passage]:
    """The passages of a data set."""
    from knowgap.compiling.data import load_dataset

    dataset = load_dataset(data)
    if not dataset.corpus:
        raise UsageError(f"{data} has no passages of its own: name a file of passages with --corpus")
    return dataset.corpus


@o.grouped
def search(
    *,
    query: Annotated[str, Argument(help="What to look for.")],
    options: o.IndexOptions,
    wanted: o.DocumentOptions,
    k: Annotated[int, Option("-k", min=1, help="How many passages.")] = 5,
    as_json: o.Json = False,
) -> None:
    """Show the passages that an index finds for a query."""
    from knowgap.retrieval.documents.sources import places_of
    from knowgap.retrieval.searching import only_documents, search_all

    if not query.strip():
        raise UsageError("the query is empty: say what to look for")
    with factories.open_index(options) as retriever, only_documents(retriever, wanted.filter()):
        [hits] = search_all(retriever, [query], k)
        sources = places_of(retriever, [hit.passage.id for hit in hits])
    if as_json:
        records = [{"rank": hit.rank, "score": hit.score, **hit.passage.to_dict()} for hit in hits]
        for record in records:
            record |= {"source": sources[record["id"]].to_dict()} if record["id"] in sources else {}
        out.print_json(json.dumps({"query": query, "hits": records}))
        return
    rows = [
        [hit.rank, f"{hit.score:.3f}", hit.passage.title, textwrap.shorten(hit.passage.text, 160, placeholder="…")]
        for hit in hits
    ]
    columns = ["rank", "score", "title", "text"]
    if files := {name: source for name, source in sources.items() if source.unit != "line"}:  # ids tell lines
        columns = [*columns, "source"]
        rows = [[*row, files.get(hit.passage.id, "")] for row, hit in zip(rows, hits, strict=True)]
    show_table(query, columns, rows, caption=None if rows else "no passage was found")
