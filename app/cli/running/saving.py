"""Score a program before and after it was improved, and save it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.cli.display import out, remark
from knowgap.cli.evaluate import Job, show_comparisons, show_scores
from knowgap.errors import LanguageModelError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Evaluation
    from knowgap.programs.base import Program

__all__ = ["score_and_save"]


def score_and_save(
    job: Job,
    before: Program,
    after: Program,
    folder: Path,
    spent: dict[str, Any] | None = None,
    *,
    lm: dspy.LM | None = None,
    compared: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Evaluation]:
    """Score both programs on dev and on the held-out test split, show the scores, and save the improved program.

    Args:
        job: the data, the metrics, and the language model of both programs.
        before: the program as it was.
        after: the improved program.
        folder: where the scores and the artifact go.
        spent: what improving it cost.
        lm: the language model of the improved program, if it was finetuned. The one before may then be unable to write
            what a program can read, which is said.
        compared: what a study of several programs found of each.

    Returns:
        The evaluations by label, such as "test after".
    """
    from knowgap.compiling import save

    evaluations: dict[str, Evaluation] = {}
    improved = job if lm is None else replace(job, lm=lm)
    for split, meaning in (("dev", "the split it was chosen on"), ("test", "held out: no choice was made on it")):
        results = {}
        for label, program, asked in (("before", before, job), ("after", after, improved)):
            try:
                result = asked.evaluate(program, split, f"{program.name} {label}", traces=True)
            except LanguageModelError as error:
                if asked is improved:
                    raise
                remark(f"no scores before: {error}")
                continue
            result.save(folder / "evaluations" / f"{split} {label}.json")
            shown = label if before.name == after.name else f"{label}: {program.name}"
            results[shown] = evaluations[f"{split} {label}"] = result
        show_scores(f"{job.dataset.name}, {split} split ({meaning})", results)
        if len(results) > 1:
            show_comparisons(results, job.metrics[0])
    artifact = save(
        after,
        folder / "artifact",
        lm=improved.lm,
        index=job.retriever,
        data=job.dataset,
        evaluations=evaluations,
        cost=spent,
        compared=compared,
    )
    out.print(f"saved in {artifact}", markup=False)
    return evaluations
