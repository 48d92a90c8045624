"""Score a program before and after it was improved, save it, and show the scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.cli.display import out, progress, remark
from knowgap.cli.evaluate import Job, show_comparisons, show_scores

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Compiled


def score_and_save(job: Job, found: Compiled[Any], folder: Path, *, lm: dspy.LM | None = None) -> Compiled[Any]:
    """Score both programs on dev and on the held-out test split, save the improved one, and show the scores.

    `lm` is the language model of the improved program, if it was finetuned.
    """
    from knowgap.compiling.compiler import score_and_save
    from knowgap.compiling.deployment import explain_zeros

    with progress(f"scoring on {job.dataset.name}") as report:
        scored = score_and_save(
            found,
            job.dataset,
            job.metrics,
            folder,
            limit=job.options.limit,
            lm=lm or job.lm,
            lm_before=job.lm if lm is not None else None,
            seed=job.options.seed,
            num_threads=job.options.num_threads,
            progress=report,
        )
    names = {"before": found.before.name, "after": (found.study or found).program.name}
    several = names["before"] != names["after"]
    for split, meaning in (
        ("dev", "the questions it was chosen on"),
        ("held-out", "questions that the study has not seen"),
        ("test", "no choice was made on it"),
    ):
        results = {
            f"{label}: {name}" if several else label: scored.evaluations[f"{split} {label}"]
            for label, name in names.items()
            if f"{split} {label}" in scored.evaluations
        }
        if not results:
            continue
        show_scores(f"{job.dataset.name}, {split} ({meaning})", results)
        if len(results) > 1:
            show_comparisons(results, job.metrics[0])
    if scored.verdict is not None:
        out.print(str(scored.verdict), markup=False)
    if zeros := explain_zeros(scored.evaluations.values(), job.metrics[0]):
        remark(f"warning: {zeros}")
    out.print(f"saved in {scored.artifact}", markup=False)
    return scored
