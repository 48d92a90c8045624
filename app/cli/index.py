"""Commands for indexes: index, search, questions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UnknownName, UsageError, shorten
from knowgap.retrieval.index import NEW_INDEX


def index(
    *,
    folder: Annotated[str, Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Folder to build.")],
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
    engine_option: Annotated[
        list[str] | None,
        Option(
            "--engine-option",
            help="A setting, as NAME=VALUE. Can be repeated. passage_tokens: tokens of a passage of --corpus at most "
            "(256; fewer if the encoder reads fewer). encoder (by path or hub name; embedded if absent): for hybrid, "
            "colbert, plaid and qdrant a ColBERT checkpoint as colbert-ai or PyLate saves it, see `knowgap ls "
            "checkpoints`; for dense a bi-encoder. hybrid and bm25: stemmer (the language of the words: english, "
            "german, french …). qdrant: collection (knowgap), on the server that QDRANT_URL names (https://HOST:6333, "
            "with the key in QDRANT_API_KEY; or a folder).",
        ),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace another index in the folder, and the Qdrant collection.")
    ] = False,
) -> None:
    """Build an index of your documents or of a data set's passages; a build that was cut off continues.

    Given again, with the same options, a corpus that has changed: what is new is added, what is gone is removed, and
    what is the same is not encoded again. Long texts are split into passages that the encoder reads whole.

    The folder can be moved and copied. That of an index on a Qdrant server holds the name of the collection and what
    encodes queries, so that the other commands take it like any other: --index FOLDER.
    """
    from knowgap.compiling.data import build_index, load_dataset
    from knowgap.retrieval.documents.reading import Reading
    from knowgap.retrieval.indexes import engine_class

    factories.check_place(folder, "--index")
    data, corpus = data or None, corpus or None  # the shell expands an unset variable to an empty string
    if (data is None) == (corpus is None):
        raise UsageError("name what to index, with either --data or --corpus (not both)")
    options = factories.named_values(engine_option, "--engine-option")
    kind = engine_class(engine or NEW_INDEX)
    known = {*kind.options, *(["encoder"] if kind.encoders else []), *([] if corpus is None else ["passage_tokens"])}
    for name in options:
        if name not in known:
            raise UnknownName.among("setting of such an index", name, known)
    settings: Any = {n: int(t) if n == "passage_tokens" and t.isdecimal() else t for n, t in options.items()}
    source, reading = load_dataset(data or "") if corpus is None else Path(corpus), Reading()
    if not isinstance(source, Path) and not source.corpus:
        raise UsageError(f"{data} has no passages of its own: name a file of passages with --corpus")
    with progress("indexing") as report:
        how: Any = {"engine": engine, "overwrite": overwrite, "reading": reading, "progress": report}
        built: Any = build_index(source, folder, **how, **settings)
    for line in reading.told():
        remark(line)
    with factories.closing(built):
        said = f"{len(built)} passages indexed"
    if (update := reading.update) is not None:
        said = f"changed files: {update.files:,}; passages: {update.added:,} added, {update.removed:,} removed"
    out.print(f"{said} in {folder} ({built.manifest.engine})", markup=False)


@o.grouped
def search(
    *,
    query: Annotated[str, Argument(help="What to look for.")],
    options: o.IndexOptions,
    k: Annotated[int, Option("-k", min=1, help="How many passages.")] = 5,
    as_json: o.Json = False,
) -> None:
    """Show the passages that an index finds for a query."""
    from knowgap.retrieval.documents.sources import places_of

    if not query.strip():
        raise UsageError("the query is empty: say what to look for")
    with factories.open_index(options) as retriever:
        [hits] = retriever.search([query], k)
        sources = places_of(retriever, [hit.passage.id for hit in hits])
    if as_json:
        records = [{"rank": hit.rank, "score": hit.score, **hit.passage.to_dict()} for hit in hits]
        for record in records:
            record |= {"source": sources[record["id"]].to_dict()} if record["id"] in sources else {}
        out.print_json(json.dumps({"query": query, "hits": records}))
        return
    rows = [[hit.rank, f"{hit.score:.3f}", hit.passage.title, shorten(hit.passage.text, 160)] for hit in hits]
    columns = ["rank", "score", "title", "text"]
    if sources:
        columns.append("source")
        rows = [[*row, sources.get(hit.passage.id, "")] for row, hit in zip(rows, hits, strict=True)]
    show_table(query, columns, rows, caption=None if rows else "no passage was found")


@dataclass(frozen=True)
class QuestionOptions(o.ModelOptions, o.IndexOptions):
    """An index, and the language model that writes questions on it."""

    n: Annotated[int, Option("--n", min=1, help="How many questions to write, half of them on two passages each.")] = 60
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

    lm = factories.load_lm(options)
    with factories.open_index(options) as index, progress("writing questions") as report:
        run = Run(lm=lm, num_threads=options.num_threads, progress=report)
        done = write_questions(index, output, n=options.n, run=run)
    page = write_questions_page(done.kept, output.with_suffix(".page.html" if output.suffix == ".html" else ".html"))
    show_table(f"questions, after {done.calls} calls", ["", "drafts"], [*done.counts().items()])
    remark(f"{len(done.kept)} of {options.n} questions written to {output}; look through them: {page}")
