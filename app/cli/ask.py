"""Commands that answer: ls, ask, serve, mcp."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.markup import escape
from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import line_progress, out, remark, show_table
from knowgap.cli.running.stopping import EndedAtOnce, leave_ctrl_c_to_the_server
from knowgap.errors import EmptyQuestion, IndexMissing, UnknownName, UsageError, shorten
from knowgap.plugins import is_reference, list_installed

if TYPE_CHECKING:
    import dspy

    from knowgap.programs.base import Program
    from knowgap.programs.sources import CitedAnswer
    from knowgap.retrieval.passage import Retriever
    from knowgap.service.live_index import LiveIndex


def ls(
    what: Annotated[
        str, Argument(help="programs, datasets, metrics, costs, optimizers, checkpoints, or a program's name.")
    ] = "all",
    as_json: o.Json = False,
) -> None:
    """List programs, data sets, metrics, costs, optimizers and checkpoints; or one program's hyperparameters."""
    from knowgap.compiling.data import DATASETS
    from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
    from knowgap.compiling.evaluation.costs import COSTS
    from knowgap.compiling.evaluation.metrics import METRICS, WITH_MODEL
    from knowgap.programs import PROGRAMS, get_program
    from knowgap.programs.base import PAPERS
    from knowgap.retrieval.hub import CHECKPOINTS

    judging = {f"{name}@MODEL": metric for name, metric in WITH_MODEL.items()}
    own: dict[str, dict[str, str]] = {
        "program": {name: _first_line(get_program(name)) for name in PROGRAMS},
        "layout": dict(DATASETS),
        "metric": {name: _first_line(metric) for name, metric in {**METRICS, **judging}.items()},
        "retriever": {},
        "reranker": {},
        "entailment model": {},
    }
    lists = {f"{kind}s": names | list_installed(kind, names, _first_line) for kind, names in own.items()}
    lists["datasets"] = lists.pop("layouts")
    lists["costs"] = {name: cost.summary for name, cost in COSTS.items()}
    lists["optimizers"] = {name: optimizer.summary for name, optimizer in OPTIMIZERS.items()}
    lists["checkpoints"] = dict(CHECKPOINTS)
    if what in lists["programs"] or is_reference(what):
        _describe_program(what, as_json)
        return
    if what != "all" and what not in lists:
        raise UnknownName.among("program or list", what, [*lists, *lists["programs"]])
    chosen = {name: entries for name, entries in lists.items() if what == name or (what == "all" and entries)}
    if as_json:
        out.print_json(json.dumps(chosen))
        return
    for name, entries in chosen.items():
        if name == "programs":  # of an installed package, only the name and the first line are known
            rows = [[each, get_program(each).calls if each in PROGRAMS else "", what] for each, what in entries.items()]
            papers = ", ".join(each for each in entries if each in PAPERS)
            caption = f"calls of the language model a question; the algorithms of their papers: {papers}"
            show_table(name, ["name", "LM calls", "what it is"], rows, caption=caption)
        else:
            show_table(name, ["name", "what it is"], list(entries.items()))


def _first_line(documented: Any) -> str:
    return next(iter((documented.__doc__ or "").strip().splitlines()), "")


def _describe_program(name: str, as_json: bool) -> None:
    from knowgap.programs import get_program

    program_class = get_program(name)
    declared = program_class.hyperparameters()
    if as_json:
        rows = {key: {"default": h.default, "bounds": h.bounds, "help": h.help} for key, h in declared.items()}
        presets = dict(program_class.presets)
        described = {"program": name, "calls": program_class.calls, "hyperparameters": rows, "presets": presets}
        out.print_json(json.dumps(described))
        return
    show_table(
        f"{name}: {_first_line(program_class)}",
        ["hyperparameter", "default", "bounds", "what it does"],
        [[key, h.default, h.bounds, h.help] for key, h in declared.items()],
    )
    if program_class.presets:
        presets = program_class.presets.items()
        settings = [[key, ", ".join(f"{name}={value}" for name, value in values.items())] for key, values in presets]
        show_table("presets", ["preset", "settings"], settings)


@dataclass(frozen=True)
class AskOptions(o.ModelOptions, o.IndexOptions, o.ProgramOptions):
    """A program, its index and its language model."""

    style: Annotated[
        str | None,
        Option(
            "--style",
            help="How answers are worded: short (a name, a date), sentence (for people who read them), long, and the "
            "others of the hyperparameter `style`.",
            show_default="sentence; an artifact's own",
        ),
    ] = None


@contextmanager
def _opened(options: AskOptions, index: Retriever | None = None) -> Iterator[tuple[Program, dspy.LM]]:
    """Make the program of the options, with its index open or with `index`, and its language model.

    Raises:
        IndexMissing: a real language model is to be asked, and neither an index nor a data set is named.
    """
    style, given = options.style, options.settings or []
    if style is None and factories.artifact_of(options.program)[1] is None:
        said = any(setting.startswith("style=") for setting in given)
        style = None if said or factories.is_module(factories.program_class_of(options.program)) else "sentence"
    if style is not None:
        options = replace(options, settings=[*given, f"style={style}"])
    checked = factories.check_program(options)
    named = index is not None or options.folder or options.data
    if checked.retrieves and options.lm not in (None, "extractive") and not named:
        raise IndexMissing(
            "no index: name one with --index FOLDER (`knowgap index` builds it), or ask the bundled fictional sample "
            "with --data sample"
        )
    lm = factories.load_lm(options, factories.artifact_of(options.program)[1], generator=checked.generator)
    with factories.open_index(options) if checked.retrieves and index is None else nullcontext(index) as retriever:
        yield checked.make(retriever, lm, ""), lm


@o.grouped
def ask(
    *,
    question: Annotated[str, Argument(help="The question.")],
    options: AskOptions,
    wanted: o.DocumentOptions,
    trace: Annotated[bool, Option("--trace", help="Show every step, not only the rounds in brief.")] = False,
    as_json: o.Json = False,
) -> None:
    """Answer a question and tell in ten lines what was looked for, found and missing.

    Without --index and --data, the embedded reader answers from the bundled sample, a fictional encyclopedia, and says
    so; a language model that is named with --lm wants one of them named as well.
    """
    import dspy
    from dspy.utils.exceptions import LMError

    from knowgap.lms.providers import as_language_model_error, unreadable_replies
    from knowgap.programs.greetings import greet
    from knowgap.programs.prediction import CitedPrediction
    from knowgap.programs.sources import CitedAnswer
    from knowgap.retrieval.searching import only_documents

    if not question.strip():
        raise EmptyQuestion("the question is empty: ask something")
    with _opened(options) as (program, lm):
        try:
            with dspy.context(lm=lm), only_documents(program.retriever, wanted.filter()):
                greeting = greet(program, question)
                prediction = program(question=question) if greeting is None else greeting
        except LMError as error:
            raise as_language_model_error(error, lm) from error
        cited = CitedAnswer.of(cast(CitedPrediction, prediction), program.retriever)
    _show_answer(question, prediction, cited, trace, as_json)
    cost = prediction.trace.cost
    if cost.all_unreadable:
        raise unreadable_replies(lm, cost.lm_calls, cost.cut)


def _show_answer(question: str, prediction: Any, cited: CitedAnswer, whole_trace: bool, as_json: bool) -> None:
    from knowgap.programs.trace.story import Story

    if as_json:
        places = {source.passage.id: source.place for source in cited.sources if source.place is not None}
        passages = [
            {**passage.to_dict(), **({"source": places[passage.id].to_dict()} if passage.id in places else {})}
            for passage in prediction.passages
        ]
        answer = {
            "question": question,
            "answer": prediction.answer,
            "cited_answer": cited.text,
            **{name: prediction[name] for name in ("supported", "missing", "guess")},
            "nearest": [source.to_dict() for source in cited.nearest],
            "sources": [source.to_dict() for source in cited.sources],
            "passages": passages,
            "citations": [citation.to_dict() for citation in cited.citations],
            "trace": prediction.trace.model_dump(mode="json"),
        }
        out.print_json(json.dumps(answer))
        return
    if whole_trace:
        out.print(prediction.trace)
    elif prediction.trace.cost.lm_calls or prediction.passages:  # not for a greeting
        calls = str(prediction.trace.cost).splitlines()[0]
        told = Story.of(prediction.trace), f"[dim]{calls}; --trace shows each step[/dim]"
        out.print(*told, sep="\n", no_wrap=True, overflow="ellipsis")
    colour = "yellow" if prediction.supported is False else "green"
    out.print(f"[bold {colour}]{escape(cited.text)}[/bold {colour}]")
    if prediction.guess and prediction.guess == cited.text:
        lacking = f"; missing: {prediction.missing}" if prediction.missing else ""
        out.print(f"  [dim]this is a guess: your documents do not say this{escape(lacking)}[/dim]")
    for source in cited.nearest:
        out.print(f"  {escape(f'nearest: {source}')}", style="dim")
    own = {name for citation in cited.citations for name in citation.own}
    for source in cited.sources:
        if source.sentence:
            said = "written by the model itself" if source.passage.id in own else shorten(source.sentence)
            out.print(f"  {escape(f'{source}: {said}')}", style="dim")
    unsupported = [citation for citation in cited.citations if not citation.supported]
    if absent := dict.fromkeys(word for citation in unsupported for word in citation.absent):
        which = "[1] does not mention" if len(cited.sources) == 1 else "no passage mentions"
        out.print(f"  [dim]{escape(which)} {escape(', '.join(absent))}[/dim]")
    if others := [citation.statement for citation in unsupported if not citation.absent]:
        what = "the answer" if len(others) == len(cited.citations) else escape("; ".join(others))
        out.print(f"  [dim]no passage was found to support {what}[/dim]")
    if cited.sources and not any(citation.supported for citation in cited.citations):
        read = dict.fromkeys(source.title for source in cited.sources)
        out.print(f"  [dim]read: {escape(', '.join(read))}[/dim]")


@o.grouped
def serve(
    *,
    documents: Annotated[
        Path | None,
        Argument(
            metavar="FOLDER",
            parser=o.local_path,
            help="A folder of documents: it is indexed, and the index follows it. Else --index.",
            show_default=False,
        ),
    ] = None,
    options: AskOptions,
    search_only: Annotated[
        bool, Option("--search-only", help="Serve the index alone, at /search, without a program.")
    ] = False,
    host: Annotated[
        str, Option("--host", help="Address to listen on; the default is this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8894,
    key: Annotated[
        str | None,
        Option(
            "--key",
            envvar="KNOWGAP_SERVE_KEY",
            help="What clients have to send, as `Authorization: Bearer KEY`; a --host that others can reach needs one.",
        ),
    ] = None,
    max_questions: Annotated[
        int,
        Option(
            "--max-questions",
            min=1,
            rich_help_panel=o.RUNNING,
            help="Questions answered at the same time; further ones get 429.",
        ),
    ] = 32,
    timeout: Annotated[
        float, Option("--timeout", min=1, rich_help_panel=o.RUNNING, help="Seconds within which an answer must come.")
    ] = 300.0,
    grace: Annotated[
        float,
        Option("--grace", min=0, rich_help_panel=o.RUNNING, help="Seconds that requests in progress get at the end."),
    ] = 60.0,
    example: Annotated[
        list[str] | None,
        Option("--example", help="A question that the page offers to begin with. Can be repeated."),
    ] = None,
    show_files: Annotated[
        bool, Option("--show-files", help="Visitors may open the files that the index was made of.")
    ] = False,
    allow_upload: Annotated[
        bool, Option("--allow-upload", help="Visitors may add files to FOLDER, up to 64 MiB each.")
    ] = False,
) -> None:
    """Serve a program and its index over HTTP: a page, a JSON API, OpenAI's chat completions, and searches."""
    from knowgap.service.server import Server

    live = _live_index(documents, options, search_only)
    if allow_upload and live is None:
        raise UsageError("--allow-upload needs a folder of documents to serve: `knowgap serve FOLDER --allow-upload`")
    with factories.open_index(options) if search_only else _opened(options, live) as opened:
        leave_ctrl_c_to_the_server()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again at its end
        limits: dict[str, Any] = {"max_questions": max_questions, "deadline": timeout, "grace": grace}
        page: dict[str, Any] = {"examples": example or (), "show_files": show_files, "allow_upload": allow_upload}
        program, lm, index = (*opened, None) if isinstance(opened, tuple) else (None, None, opened)
        if live is not None:
            live.start()
        server = Server(program, lm, index=index, host=host, port=port, key=key or None, **limits, **page)
        with suppress(KeyboardInterrupt, SystemExit), nullcontext() if live is None else factories.closing(live):
            name = server.name or f"the index {options.folder or options.data}"
            server.serve_forever(lambda: remark(f"serving {name} at {server.url}; stop it with Ctrl-C"))
    raise EndedAtOnce(0)


def _live_index(folder: Path | None, options: AskOptions, search_only: bool) -> LiveIndex | None:
    """The index of a served folder, which is not started yet; None without a folder."""
    if folder is None:
        return None
    for name, given in (("--index", options.folder), ("--data", options.data), ("--search-only", search_only)):
        if given:
            raise UsageError(f"{name} cannot be used with a folder: leave it out, or the folder {folder}")
    from knowgap.service.live_index import LiveIndex

    engine = options.engine or o.NEW_INDEX
    return LiveIndex(
        folder, factories.home() / "folders", engine=engine, progress=line_progress(folder.name), say=remark
    )


@o.grouped
def mcp(*, options: AskOptions) -> None:
    """Offer the tools `ask` and `search` to an MCP client, over standard input and output."""
    from knowgap.service.mcp_tools import make_server

    with _opened(options) as (program, lm):
        make_server(program, lm).run()
