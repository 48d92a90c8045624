"""Commands that answer questions: ask, serve, mcp."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import err, line_progress, out, remark
from knowgap.errors import EmptyQuestion, IndexMissing, UsageError, shorten
from knowgap.retrieval.index import NEW_INDEX

if TYPE_CHECKING:
    import dspy

    from knowgap.programs.base import Program
    from knowgap.programs.prediction import CitedAnswer
    from knowgap.retrieval.passage import Retriever


@dataclass(frozen=True)
class AskOptions(o.ModelOptions, o.IndexOptions, o.ProgramOptions):
    """A program, its index and its language model."""


@contextmanager
def opened(options: AskOptions, index: Retriever | None = None) -> Iterator[tuple[Program, dspy.LM]]:
    """Make the program of the options, with its index open or with `index`, and its language model.

    Answers are sentences, for people, unless the options, their preset or the compiled program say otherwise.

    Raises:
        IndexMissing: a real language model is to be asked, and no index is named.
    """
    program_class, artifact = factories.program_of(options.program)
    preset = "preset" in factories.named_values(options.settings, "--set")
    if artifact is None and not preset and not factories.is_module(program_class):
        options = replace(options, settings=["style=sentence", *(options.settings or [])])
    [checked] = factories.check_programs(options).values()
    if checked.retrieves and options.lm not in (None, "extractive") and index is None and options.folder is None:
        raise IndexMissing(
            "no index: name one with --index FOLDER (`knowgap index` builds it, or a folder of documents), or ask the "
            "bundled fictional sample with --index sample"
        )
    lm = factories.load_lm(options, generator=checked.generator)
    with factories.open_index(options) if checked.retrieves and index is None else nullcontext(index) as retriever:
        yield checked.make(retriever, lm), lm


@o.grouped
def ask(
    *,
    question: Annotated[str, Argument(help="The question.")],
    options: AskOptions,
    trace: Annotated[bool, Option("--trace", help="Show every step, not only the rounds in brief.")] = False,
    as_json: o.Json = False,
) -> None:
    """Answer a question, and say in brief what was looked for, found and missing.

    Without --index, the embedded reader answers from the bundled sample, a fictional encyclopedia, and says so; a
    language model that is named with --lm wants an index named as well.
    """
    import dspy
    from dspy.utils.exceptions import LMError

    from knowgap.lms.providers import as_language_model_error, unreadable_replies
    from knowgap.programs.conversation import greet
    from knowgap.programs.prediction import CitedAnswer

    if not question.strip():
        raise EmptyQuestion("the question is empty: ask something")
    with opened(options) as (program, lm):
        try:
            with dspy.context(lm=lm):
                greeting = greet(program, question)
                prediction = program(question=question) if greeting is None else greeting
        except LMError as error:
            raise as_language_model_error(error, lm) from error
        cited = CitedAnswer.of(prediction, program.retriever)
    _show_answer(question, prediction, cited, trace, as_json)
    cost = prediction.trace.cost
    if cost.all_unreadable:
        raise unreadable_replies(lm, cost.lm_calls, cost.cut)


def _show_answer(question: str, prediction: Any, cited: CitedAnswer, whole_trace: bool, as_json: bool) -> None:
    from knowgap.programs.trace.trace import rounds_of

    if as_json:
        trace = {"trace": prediction.trace.model_dump(mode="json")}
        out.print_json(json.dumps({"question": question, **cited.to_dict(prediction), **trace}))
        return
    if whole_trace:
        out.print(prediction.trace)
    elif prediction.trace.cost.lm_calls or prediction.passages:  # not for a greeting
        calls = str(prediction.trace.cost).splitlines()[0]
        lines = [escape(f"{number} {told}") for number, told in enumerate(rounds_of(prediction.trace), start=1)]
        out.print("\n".join([*lines, f"[dim]{calls}; --trace shows each step[/dim]"]))
    colour = "yellow" if prediction.supported is False else "green"
    out.print(f"[bold {colour}]{escape(cited.text)}[/bold {colour}]")
    for note in _notes_on(prediction, cited):
        out.print(f"  {escape(note)}", style="dim")


def _notes_on(prediction: Any, cited: CitedAnswer) -> Iterator[str]:
    """What an answer rests on, and what of it is stated nowhere."""
    if prediction.guess and prediction.guess == cited.text:
        lacking = f"; missing: {prediction.missing}" if prediction.missing else ""
        yield f"this is a guess: your documents do not say this{lacking}"
    yield from dict.fromkeys(f"nearest: {source}" for source in cited.nearest)
    yield from (f"{source}: {shorten(source.sentence)}" for source in cited.sources if source.sentence)
    unsupported = [citation for citation in cited.citations if not citation.supported]
    if absent := dict.fromkeys(word for citation in unsupported for word in citation.absent):
        which = "[1] does not mention" if len(cited.sources) == 1 else "no passage mentions"
        yield f"{which} {', '.join(absent)}"
    yield from (f"no passage supports: {citation.statement}" for citation in unsupported if not citation.absent)
    if cited.sources and not any(citation.supported for citation in cited.citations):
        yield f"read: {', '.join(dict.fromkeys(source.title for source in cited.sources))}"


@o.grouped
def serve(
    *,
    documents: Annotated[
        str | None,
        Argument(
            metavar="FOLDER",
            help="A folder of documents: it is indexed, and the index follows it. Else --index.",
            show_default=False,
        ),
    ] = None,
    options: AskOptions,
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
        int, Option("--max-questions", min=1, help="Questions answered at the same time; further ones get 429.")
    ] = 32,
    timeout: Annotated[float, Option("--timeout", min=1, help="Seconds within which an answer must come.")] = 300.0,
) -> None:
    """Serve a program and its index over HTTP: a page, a JSON API, OpenAI's chat completions, and searches."""
    from knowgap.service.live_index import LiveIndex
    from knowgap.service.server import Server

    live = None
    if documents is not None:
        factories.check_place(documents, "FOLDER")
        if options.folder:
            raise UsageError("a folder is served without --index: leave it out, or the folder")
        engine, told = os.environ.get("KNOWGAP_ENGINE", NEW_INDEX), line_progress(Path(documents).absolute().name)
        live = LiveIndex(documents, factories.home() / "folders", engine=engine, progress=told, say=remark)
    with opened(options, live) as (program, lm):
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again at its end
            signal.signal(number, lambda *_: sys.exit(0))
        if live is not None:
            live.start()
        limits: dict[str, Any] = {"max_questions": max_questions, "deadline": timeout}
        server = Server(program, lm, host=host, port=port, key=key or None, **limits)
        with suppress(SystemExit), nullcontext() if live is None else factories.closing(live):
            remark(f"serving {server.name} at {server.url}; stop it with Ctrl-C")
            server.serve_forever()
    end_at_once(0)


def end_at_once(code: int) -> None:
    """End this process without waiting for its threads, which may wait for a language model for minutes."""
    with suppress(OSError, ValueError):
        err.show_cursor(True)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


@o.grouped
def mcp(*, options: AskOptions) -> None:
    """Offer the tools `ask` and `search` to an MCP client, over standard input and output."""
    from knowgap.service.mcp_tools import make_server

    with opened(options) as (program, lm):
        make_server(program, lm).run()
