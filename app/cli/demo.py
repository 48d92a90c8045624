"""The command that shows the whole loop on the bundled sample: demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, show_table
from knowgap.cli.evaluate import Job, show_comparisons, show_scores
from knowgap.cli.running.study import run_study, show_study

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Evaluations, StudyResult
    from knowgap.compiling.evaluation.runner import QuestionRecord
    from knowgap.programs.base import Program

_METHODS = ("rag", "knowgap", "migres", "adaptive_note", "ra_isf", "rq_rag", "blend_filter")
_CANDIDATES = ("rag", "blend_filter")  # one hyperparameter; several switches
_RANGES = {"top_k": (3, 20)}  # longer prompts would take most of the demo's time
_SNIPPET = """
import dspy, knowgap
dspy.configure(lm=knowgap.make_lm({model}))
program = knowgap.load("{artifact}", retriever="{index}")
prediction = program(question="{question}")
print(prediction.answer)

prints: {answer}   (the encyclopedia says: {reference})"""


def demo(
    output_dir: Annotated[Path, Option("--output-dir", "-o", help="Folder for what the demo makes.")] = Path(
        "demo-output"
    ),
    lm: Annotated[str, Option("--lm", help="Language model, instead of the embedded reader.")] = "extractive",
    api_base: Annotated[str | None, Option("--api-base", help="Endpoint of an OpenAI-compatible server.")] = None,
    n_trials: Annotated[int, Option("--n-trials", min=1, help="Trials of each study.")] = 5,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="Questions of the dev and test splits.")] = 50,
    num_threads: Annotated[int, Option("--num-threads", min=1, help="Questions answered at once.")] = 2,
) -> None:
    """Run the main job on the bundled sample, offline by default: index, ask, compile and tune, compare, save, load.

    Repeating it continues where it was cut off, and reuses what is already there.
    """
    import dspy

    from knowgap.compiling import load, save
    from knowgap.compiling.data import load_dataset
    from knowgap.compiling.evaluation.shared_cache import CachedRetriever
    from knowgap.retrieval.index.engines import open_or_build

    _step("1. the sample: a fictional encyclopedia, so that an answer can only come from retrieval")
    dataset, index = load_dataset("sample"), output_dir / "index"
    sizes = ", ".join(f"{len(examples)} {name}" for name, examples in dataset.splits.items())
    out.print(f"{len(dataset.corpus)} passages; questions: {sizes}", markup=False)

    _step("2. documents → ColBERT index")
    with progress("indexing") as report:
        opened = open_or_build(index, dataset.corpus, "colbert", progress=report)
    out.print(f"index in {index}", markup=False)
    with factories.closing(opened):
        retriever = CachedRetriever(opened)  # all programs search for the questions themselves
        options = o.StudyOptions(lm=lm, api_base=api_base, limit=limit, n_trials=n_trials, num_threads=num_threads)
        job = Job(options, dataset, ["f1", "exact_match"], factories.load_lm(options), retriever)

        _step("3. a question that retrieving once does not answer, and looking for what is missing does")
        _show_question(job)

        _step("4. compiled: an Optuna study of each of two programs on the dev split; the one that gains more is kept")
        before, tuned = _tune_candidates(job, options, output_dir)

        _step("5. compared on the test split, which nothing above has seen")
        evaluations = _compare(job, before, tuned.program)

        _step("6. saved, and loaded again")
        artifact = save(
            tuned.program,
            output_dir / "artifact",
            lm=job.lm,
            data=dataset,
            evaluations={"test before": evaluations[before.name], "test after": evaluations[f"{before.name} tuned"]},
            study=tuned,
        )
        records = evaluations[f"{before.name} tuned"].records
        right, wrong = (_first(records, right) for right in (True, False))
        asked = right or records[0]
        with dspy.context(lm=job.lm):
            answer = load(artifact, retriever=retriever)(question=asked.question).answer
        shown = {"question": asked.question, "answer": answer, "reference": asked.reference[0]}
        shown["model"] = f'"{lm}"' + (f', api_base="{api_base}"' if api_base else "")
        out.print(_SNIPPET.format(artifact=artifact.resolve(), index=index.resolve(), **shown), markup=False)

        _step("7. the first question that it answers, the first that it does not, and where their evidence went")
        titles = {passage.id: passage.title for passage in dataset.corpus}
        for record in filter(None, (right, wrong)):
            _show_fates(record, titles)


def _step(what: str) -> None:
    out.print()
    out.print(f"[bold]{what}")


def find_question(
    examples: Sequence[dspy.Example], base: Program, program: Program, lm: dspy.LM
) -> tuple[int, dspy.Prediction, dspy.Prediction] | None:
    """Find the first question that has an answer, which `program` gives exactly and `base` does not.

    Returns:
        Its position in `examples`, from 0, with the predictions of `base` and of `program`; None if there is none.
    """
    import dspy

    from knowgap.compiling.evaluation.metrics import exact_match
    from knowgap.compiling.evaluation.metrics.normalize import is_unanswerable, reference_answers

    with dspy.context(lm=lm):
        for number, example in enumerate(examples):
            if is_unanswerable(reference_answers(example)):
                continue
            of_base = base(question=example.question)
            if exact_match(example, of_base):
                continue
            of_program = program(question=example.question)
            if exact_match(example, of_program):
                return number, of_base, of_program
    return None


def _show_question(job: Job) -> None:
    """Show the first question that KnowGap alone answers: its trace, both answers and the reference."""
    base, program = (_programs(job, name)[name] for name in ("rag", "knowgap"))
    examples = job.dataset.questions("dev")
    found = find_question(examples, base, program, job.lm)
    if found is None:
        out.print(f"none: knowgap answers no question of {len(examples)} that rag does not", markup=False)
        return
    number, of_base, of_program = found
    out.print(
        f"the first such question of the dev split (number {number + 1}), chosen after both were asked; "
        "step 5 counts wins and losses",
        markup=False,
    )
    out.print(of_program.trace)
    rows = [
        ["rag", of_base.answer, of_base.trace.cost.lm_calls],
        ["knowgap", of_program.answer, of_program.trace.cost.lm_calls],
        ["the encyclopedia", examples[number].answer, ""],
    ]
    show_table("the answers", ["who", "answer", "LM calls"], rows)


def _programs(job: Job, *names: str) -> dict[str, Program]:
    from knowgap.programs import get_program

    return {name: get_program(name)(job.retriever) for name in names}


def _tune_candidates(job: Job, options: o.StudyOptions, output_dir: Path) -> tuple[Program, StudyResult[Program]]:
    """Tune two programs on the dev split; return the one that gains more there, as it was, and its study."""
    from knowgap.reports.rendering import format_gain

    programs = _programs(job, *_CANDIDATES)
    studies = {
        name: run_study(job, [program], output_dir, options, demos="auto", ranges=_RANGES)
        for name, program in programs.items()
    }
    rows = []
    for name, tuned in studies.items():
        spent, scores = tuned.spent, [f"{tuned.default.score:.3f}", f"{tuned.best.score:.3f}"]
        tokens = spent.prompt_tokens + spent.completion_tokens
        tokens += spent.cached_prompt_tokens + spent.cached_completion_tokens
        rows.append([name, *scores, format_gain(tuned.gain()), spent.calls + spent.cached_calls, tokens])
    columns = ["program", "before", "best", "gain [95% interval]", "LM calls", "tokens"]
    show_table("f1 on dev, which flatters what was chosen there; and what the studies cost", columns, rows)
    chosen = max(studies, key=lambda name: studies[name].gain().difference)
    best = max(studies, key=lambda name: studies[name].best.score)
    said = [f"{chosen} is kept."]
    if best != chosen:
        said.append(f"{best} scores higher, with less gain or none.")
    if options.lm == "extractive":
        said.append("No demonstrations: the embedded reader takes no notice of them. With a language model,")
        said.append("`knowgap compile` searches demonstrations and hyperparameters together.")
    out.print(" ".join(said), markup=False)
    show_study(studies[chosen])
    return programs[chosen], studies[chosen]


def _compare(job: Job, before: Program, tuned: Program) -> Evaluations:
    """Evaluate all methods, and the tuned program, on the test split, and show how they compare."""
    from knowgap.programs import get_program

    label = f"{before.name} tuned"
    programs = {"direct": get_program("direct")(), **_programs(job, *_METHODS), label: tuned}
    results = job.evaluate(programs, "test")
    number = len(results["rag"].records)
    reader = "embedded extractive reader" if job.options.lm == "extractive" else job.options.lm
    title = f"sample, test split, {number} questions, {reader}"
    show_scores(title, results, evidence_first=True)
    show_comparisons({name: results[name] for name in _METHODS}, "f1")
    show_comparisons({before.name: results[before.name], label: results[label]}, "f1")
    return results


def _first(records: Sequence[QuestionRecord], right: bool) -> QuestionRecord | None:
    """The first question with evidence that was answered exactly, or that was not."""
    return next((r for r in records if r.evidence and (r.scores["exact_match"] == 1.0) is right), None)


def _show_fates(record: QuestionRecord, titles: Mapping[str, str]) -> None:
    """Show the fate of each gold passage of a question."""
    lines = ["", record.question, f"  answer: {record.answer}; the encyclopedia says: {record.reference[0]}"]
    lines += [f"  {titles.get(passage, passage)}: {fate}" for passage, fate in record.evidence.items()]
    out.print("\n".join(lines), markup=False)
