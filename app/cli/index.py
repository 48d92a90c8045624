"""Commands for indexes: index, search, questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.ask import Files
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError, shorten
from knowgap.retrieval.index import NEW_INDEX

_NAMED = 100  # the most lines on what was left out
_ENGINE_OPTIONS: dict[str, dict[str, type]] = {
    "bm25": {"stemmer": str},
    "colbert": {"encoder": str},
    "dense": {"encoder": str},
    "hybrid": {"encoder": str, "stemmer": str},
    "plaid": {"encoder": str, "nbits": int},
    "qdrant": {"encoder": str, "url": str, "collection": str, "shard_number": int, "replication_factor": int},
}


def index(
    *,
    folder: Annotated[
        Path,
        Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Folder to build."),
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
    engine: o.Engine = None,
    passage_tokens: Annotated[
        int | None,
        Option(
            "--passage-tokens",
            min=32,
            help="Tokens of a passage of --corpus at most; fewer if the encoder reads fewer.",
            show_default="256",
        ),
    ] = None,
    engine_option: Annotated[
        list[str] | None,
        Option(
            "--engine-option",
            help="A setting of the engine, as NAME=VALUE. Can be repeated. encoder (by path or hub name; embedded if "
            "absent): for hybrid, colbert, plaid and qdrant a ColBERT checkpoint as colbert-ai or PyLate saves it, see "
            "`knowgap ls checkpoints`; for dense a bi-encoder. hybrid and bm25: stemmer (the language of the words: "
            "english, german, french …). qdrant: url (https://HOST:6333, with the key in QDRANT_API_KEY, or a folder; "
            "other commands ask only what QDRANT_URL names), collection (knowgap), shard_number and "
            "replication_factor (on a cluster). plaid: nbits (1, 2 or 4).",
        ),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace another index in the folder, and the Qdrant collection.")
    ] = False,
) -> None:
    """Build an index of your documents or of a data set's passages; a build that was cut off continues.

    Given again, with the same options, a corpus that has changed: what is new is added, what is gone is removed, and
    what is the same is not encoded again. Long texts are split into passages that the encoder reads whole.

    The folder can be moved and copied. That of an index on a Qdrant server holds the address of the collection and what
    encodes queries, so that the other commands take it like any other: --index FOLDER.
    """
    from knowgap.compiling.data import build_index, load_dataset
    from knowgap.retrieval.documents.reading import Reading

    data, corpus = data or None, corpus or None  # the shell expands an unset variable to an empty string
    if (data is None) == (corpus is None):
        raise UsageError("name what to index, with either --data or --corpus (not both)")
    if corpus is None and passage_tokens:
        raise UsageError("--passage-tokens works only with --corpus: a data set's passages stay as they are")
    given = factories.named_values(engine_option, "--engine-option")
    options: dict[str, Any] = _engine_options(engine or NEW_INDEX, given)
    if passage_tokens:
        options["passage_tokens"] = passage_tokens
    source, reading = load_dataset(data or "") if corpus is None else Path(corpus), Reading()
    if not isinstance(source, Path) and not source.corpus:
        raise UsageError(f"{data} has no passages of its own: name a file of passages with --corpus")
    with progress("indexing") as report:
        built: Any = build_index(
            source, folder, engine=engine, overwrite=overwrite, reading=reading, progress=report, **options
        )
    told, update = reading.told(), reading.update
    for line in told[:_NAMED]:
        remark(line)
    if len(told) > _NAMED:
        remark(f"and {len(told) - _NAMED:,} more")
    with factories.closing(built):
        said = f"{len(built)} passages indexed"
    if update is not None:
        counts = f"{update.added:,} added, {update.removed:,} removed, {update.kept:,} kept"
        said = f"changed files: {update.files:,}; passages: {counts}"
    out.print(f"{said} in {folder} ({built.manifest.engine})", markup=False)


def _engine_options(engine: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of an engine's `build` that --engine-option sets."""
    known = _ENGINE_OPTIONS.get(engine, {})
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"--engine-option {name}: the settings of {engine} are {', '.join(known) or 'none'}")
        if known[name] is int and not (value.isdecimal() and int(value)):
            raise UsageError(f"--engine-option {name}={value}: write a whole number of at least 1")
    return {name: known[name](value) for name, value in given.items()}


@o.grouped
def search(
    *,
    query: Annotated[str, Argument(help="What to look for.")],
    options: o.IndexOptions,
    files: Files = None,
    k: Annotated[int, Option("-k", min=1, help="How many passages.")] = 5,
    as_json: o.Json = False,
) -> None:
    """Show the passages that an index finds for a query."""
    from knowgap.retrieval.documents.sources import places_of
    from knowgap.retrieval.searching import only_documents, search_all

    if not query.strip():
        raise UsageError("the query is empty: say what to look for")
    with factories.open_index(options) as retriever, only_documents(retriever, files or ()):
        [hits] = search_all(retriever, [query], k)
        sources = places_of(retriever, [hit.passage.id for hit in hits])
    if as_json:
        records = [{"rank": hit.rank, "score": hit.score, **hit.passage.to_dict()} for hit in hits]
        for record in records:
            record |= {"source": sources[record["id"]].to_dict()} if record["id"] in sources else {}
        out.print_json(json.dumps({"query": query, "hits": records}))
        return
    places = {name: source for name, source in sources.items() if source.unit != "line"}  # ids tell lines
    rows = [[hit.rank, f"{hit.score:.3f}", hit.passage.title, shorten(hit.passage.text, 160)] for hit in hits]
    columns = ["rank", "score", "title", "text"]
    if places:
        columns.append("source")
        rows = [[*row, places.get(hit.passage.id, "")] for row, hit in zip(rows, hits, strict=True)]
    show_table(query, columns, rows, caption=None if rows else "no passage was found")


@dataclass(frozen=True)
class QuestionOptions(o.ModelOptions, o.IndexOptions):
    """An index, and the language model that writes questions on it."""

    n: Annotated[int, Option("--n", min=1, help="How many questions to write, divided equally among the kinds.")] = 60
    kinds: Annotated[str, Option("--kinds", help="Kinds of questions, separated by commas.")] = "one_hop,two_hop"
    num_threads: o.Threads = 4


@o.grouped
def questions(
    *,
    output: Annotated[
        Path, Option("--output", "-o", help="File of the questions; a page beside it shows them.")
    ] = Path("questions.jsonl"),
    options: QuestionOptions,
) -> None:
    """Have a language model (--lm) write questions with answers and gold passages from an index, and check each.

    `--data questions.jsonl` takes the output. The page beside it shows every question with its passages: strike out
    what is no good and save the rest. The same command continues a run that was stopped.
    """
    from knowgap.compiling import Run
    from knowgap.compiling.questions.writing import write_questions
    from knowgap.reports.pages import write_questions_page

    if output.suffix != ".jsonl":
        raise UsageError(f"--output {output}: the file is JSON Lines, so name it {output.stem}.jsonl")
    kinds = [kind.strip() for kind in options.kinds.split(",") if kind.strip()]
    run = Run(lm=factories.load_lm(options), num_threads=options.num_threads)
    with factories.open_index(options) as index, progress("writing questions") as report:
        done = write_questions(index, output, n=options.n, kinds=kinds, run=replace(run, progress=report))
    page = write_questions_page(done.kept, output.with_suffix(".html"))
    show_table(f"questions, after {done.calls} calls", ["", "drafts"], [*done.counts().items()])
    remark(f"{len(done.kept)} of {options.n} questions written to {output}; look through them: {page}")
