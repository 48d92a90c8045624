"""The command that shows the whole loop on the bundled sample: demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.compile import optimize_demonstrations, run_study, show_study
from knowgap.cli.display import out, progress
from knowgap.cli.evaluate import Job, show_comparisons, show_scores

if TYPE_CHECKING:
    import dspy

    from knowgap.compile import Evaluation
    from knowgap.compile.data import Dataset
    from knowgap.programs.base import Program

__all__ = ["COMMANDS", "demo"]

_METHODS = ("migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")
_SNIPPET = """
import dspy, knowgap
dspy.configure(lm=knowgap.make_lm("extractive"))
program = knowgap.load("{artifact}", retriever="{index}")
prediction = program(question="{question}")
print(prediction.answer, [passage.title for passage in prediction.passages])
"""


def demo(
    output_dir: Annotated[Path, typer.Option("--output-dir", "-o", help="Folder for what the demo makes.")] = Path(
        "demo-output"
    ),
    n_trials: Annotated[int, typer.Option("--n-trials", min=1, help="Trials of the study.")] = 8,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Questions of the dev and test splits.")] = 50,
    num_threads: Annotated[int, typer.Option("--num-threads", min=1, help="Questions answered at once.")] = 2,
) -> None:
    """Run the main job offline on the bundled sample: index, ask, compile, tune, compare, save, load.

    Repeating it continues where it was cut off, and reuses what is already there.
    """
    from knowgap.compile import DemoConfig, save_artifact
    from knowgap.compile.data import load_dataset
    from knowgap.programs import get_program
    from knowgap.retrieval.index.engines import open_or_build

    _step(1, "the sample: a fictional encyclopedia, so that an answer can only come from retrieval")
    dataset = load_dataset("sample")
    sizes = ", ".join(f"{len(examples)} {name}" for name, examples in dataset.splits.items())
    out.print(f"{len(dataset.corpus)} passages; questions: {sizes}", markup=False)

    _step(2, "documents → ColBERT index")
    with progress("indexing") as report:
        opened = open_or_build(output_dir / "index", dataset.corpus, "colbert", progress=report)
    out.print(f"index in {output_dir / 'index'}", markup=False)
    with factories.closing(opened) as retriever:
        _step(3, "a question, answered step by step")
        lm = factories.load_lm(None)
        migres = get_program("migres")(retriever)
        question = _answer_one(migres, dataset, lm)

        _step(4, "compiled: δ from the score distribution, demonstrations from the train split")
        options = o.StudyOptions(limit=limit, n_trials=n_trials, num_threads=num_threads)
        job = Job(options, dataset, ["f1", "exact_match"], lm, retriever)
        compiled = _compile(replace(job, options=replace(options, limit=None)), migres)

        _step(5, "tuned: an Optuna study over the hyperparameters, on the dev split")
        no_demos = DemoConfig(mode="none")
        tuned = run_study(job, compiled, output_dir, options, demos=no_demos, ranges={"retrieve_k": (10, 50)})
        show_study(migres, tuned)

        _step(6, "compared on the test split, which nothing above has seen")
        evaluations = _compare(job, migres, tuned.program)

        _step(7, "saved; load it from Python with")
        artifact = save_artifact(
            tuned.program, output_dir / "artifact", lm=lm, index=retriever, data=dataset, evaluations=evaluations
        )
    index = (output_dir / "index").resolve()
    out.print(_SNIPPET.format(artifact=artifact.resolve(), index=index, question=question), markup=False)


def _step(number: int, what: str) -> None:
    out.print()
    out.rule(f"[bold]{number}. {what}", align="left")


def _answer_one(program: Program, dataset: Dataset, lm: dspy.LM) -> str:
    """Answer a question of several steps, show the trace, and return the question."""
    import dspy

    example = next(example for example in dataset.splits["test"] if example.type == "compositional")
    with dspy.context(lm=lm):
        prediction = program(question=example.question)
    out.print(prediction.trace)
    out.print(f"answer: {prediction.answer}   (the encyclopedia says: {example.answer})", markup=False)
    return example.question


def _compile(job: Job, program: Program) -> Program:
    """Set δ and find demonstrations, both from the train split."""
    from knowgap.compile import calibrate

    with progress("calibrating δ") as report:
        calibration = calibrate(program, job.dataset.splits["train"], progress=report)
    share = calibration.covered(calibration.delta)
    out.print(f"δ = {calibration.delta:.4f}: {share:.0%} of the training questions find a passage that scores as much")
    return optimize_demonstrations(job, calibration.apply(program), "bootstrap")


def _compare(job: Job, migres: Program, tuned: Program) -> dict[str, Evaluation]:
    """Show all methods on the test split; return the evaluations of MIGRES before and after."""
    from knowgap.programs import get_program

    programs = {"direct": get_program("direct")(), "rag": get_program("rag")(job.retriever)}
    programs |= {name: migres if name == "migres" else get_program(name)(job.retriever) for name in _METHODS}
    programs["migres, compiled and tuned"] = tuned
    results = {label: job.evaluate(program, "test", label) for label, program in programs.items()}
    number = len(results["rag"].records)
    show_scores(f"sample, test split, {number} questions, embedded extractive reader", results)
    show_comparisons({label: results[label] for label in ("rag", *_METHODS)}, "f1")
    before, after = results["migres"], results["migres, compiled and tuned"]
    show_comparisons({"migres": before, "migres, compiled and tuned": after}, "f1")
    return {"test before": before, "test after": after}


COMMANDS = {"demo": demo}
