"""The command that shows the whole loop on the bundled sample: demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from knowgap.cli import factories
from knowgap.cli.display import out, progress, remark, show_table

__all__ = ["COMMANDS", "demo"]

METHODS = ("migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")


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
    import dspy

    from knowgap.cli.compile import run_study, show_study
    from knowgap.cli.evaluate import run_evaluation, score_rows, show_comparisons
    from knowgap.compile import calibrate, compile_program, save_artifact
    from knowgap.programs import get_program

    metrics = ["f1", "exact_match"]
    output_dir.mkdir(parents=True, exist_ok=True)

    _step(1, "the sample: a fictional encyclopedia, so that an answer can only come from retrieval")
    data = factories.open_data("sample")
    sizes = ", ".join(f"{len(examples)} {name}" for name, examples in data.splits.items())
    out.print(f"{len(data.corpus)} passages; questions: {sizes}", markup=False)

    _step(2, "documents → ColBERT index")
    folder = output_dir / "index"
    with progress("indexing") as report:
        retriever: Any = factories.build_index(data.corpus, folder, progress=report) if not folder.exists() else None
    retriever = retriever or factories.open_retriever(folder)
    out.print(f"index in {folder}", markup=False)

    _step(3, "a question, answered step by step")
    model = factories.language_model(None)
    remark(factories.EMBEDDED_NOTICE)
    migres = get_program("migres")(retriever)
    question = next(e for e in data.splits["test"] if e.type == "compositional")
    with dspy.context(lm=model):
        prediction = migres(question=question.question)
    out.print(prediction.trace)
    out.print(f"answer: {prediction.answer}   (the encyclopedia says: {question.answer})", markup=False)

    _step(4, "compiled: δ from the score distribution, demonstrations from the train split")
    with progress("calibrating δ") as report:
        found = calibrate(migres, data.splits["train"], progress=report)
    share = found.covered(found.delta)
    out.print(f"δ = {found.delta:.4f}: {share:.0%} of the training questions find a passage that scores as much")
    with progress("finding demonstrations") as report:
        compiled = compile_program(
            found.apply(migres),
            data.splits["train"],
            metric="f1",
            optimizer="bootstrap",
            lm=model,
            num_threads=num_threads,
            progress=report,
        )
    demos = sum(len(predictor.demos) for predictor in compiled.predictors())
    out.print(f"{demos} demonstrations in {len(compiled.predictors())} predictors", markup=False)

    _step(5, "tuned: an Optuna study over the hyperparameters, on the dev split")
    tuned = run_study(
        compiled,
        data,
        "f1",
        model,
        output_dir,
        limit=limit,
        n_trials=n_trials,
        num_threads=num_threads,
        demos=None,
        ranges={"retrieve_k": (10, 50)},
    )
    show_study(migres, tuned)

    _step(6, "compared on the test split, which nothing above has seen")
    test = data.splits["test"][:limit]
    rows = [("direct", get_program("direct")()), ("rag", get_program("rag")(retriever))]
    rows += [(name, migres if name == "migres" else get_program(name)(retriever)) for name in METHODS]
    rows.append(("migres, compiled and tuned", tuned.program))
    results = [
        (label, run_evaluation(built, data, "test", metrics, model, num_threads, 0, limit=limit, what=label))
        for label, built in rows
    ]
    show_table(*score_rows(f"sample, test split, {len(test)} questions, embedded extractive reader", results))
    named = dict(results)
    show_comparisons([("rag", named["rag"]), *((label, named[label]) for label in METHODS)], "f1")
    show_comparisons([("migres", named["migres"]), (rows[-1][0], results[-1][1])], "f1")

    _step(7, "saved; load it from Python with")
    evaluations = {"test before": named["migres"], "test after": results[-1][1]}
    artifact = save_artifact(
        tuned.program, output_dir / "artifact", lm=model, index=retriever, data=data, evaluations=evaluations
    )
    out.print(
        SNIPPET.format(artifact=artifact.resolve(), index=folder.resolve(), question=question.question), markup=False
    )


SNIPPET = """
import dspy, knowgap
dspy.configure(lm=knowgap.make_lm("extractive"))
program = knowgap.load("{artifact}", retriever="{index}")
prediction = program(question="{question}")
print(prediction.answer, [passage.title for passage in prediction.passages])
"""


def _step(number: int, what: str) -> None:
    out.print()
    out.rule(f"[bold]{number}. {what}", align="left")


COMMANDS = {"demo": demo}
