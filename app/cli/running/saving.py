"""Score a program before and after it was improved, save it, and show the scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.cli.display import out, progress
from knowgap.cli.evaluate import Job, show_comparisons, show_scores

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Compiled


def score_and_save(job: Job, found: Compiled[Any], folder: Path, *, lm: dspy.LM | None = None) -> Compiled[Any]:
    """Score both programs on dev and on the held-out test split, save the improved one, and show the scores.

    `lm` is the language model of the improved program, if it was finetuned.
    """
    from knowgap.compiling.compiler import score_and_save

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
    before, after = found.before.name, found.program.name
    labels = (
        {"before": "before", "after": "after"}
        if before == after
        else {"before": f"before: {before}", "after": f"after: {after}"}
    )
    for split, meaning in (("dev", "the split it was chosen on"), ("test", "held out: no choice was made on it")):
        results = {
            shown: scored.evaluations[f"{split} {label}"]
            for label, shown in labels.items()
            if f"{split} {label}" in scored.evaluations
        }
        show_scores(f"{job.dataset.name}, {split} split ({meaning})", results)
        if len(results) > 1:
            show_comparisons(results, job.metrics[0])
    out.print(f"saved in {scored.artifact}", markup=False)
    return scored
