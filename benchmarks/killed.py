"""A build that is killed at random moments and continued, against one that nothing disturbs."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path

from engines import OURS, in_process, recorded_files
from table import Table, note, ratio, seconds

__all__ = ["killed_builds"]


def killed_builds(passages: int, kills: int) -> Table:
    """Build an index twice, the second time killed with SIGKILL so many times before its end.

    The moments are drawn so that every kill falls into the unfinished build: each attempt may run for no more than
    its share of the undisturbed time. A build that ends before its moment is not killed any more, and the table says
    how often it was.

    Args:
        passages: of the fictional encyclopedia; of each the first sentence alone, since encoding all of it takes
            several times as long and shows nothing else.
        kills: how many.
    """
    draw = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        folder = Path(name)
        in_process("fit_checkpoint", folder, passages=passages)
        note(f"retrieval: {passages:,} passages, undisturbed")
        whole = in_process("build_ours", folder, passages=passages, short=True)["seconds"]
        expected = recorded_files(folder)
        shutil.rmtree(folder / OURS)
        started, moments = time.perf_counter(), []
        while len(moments) < kills and not (folder / OURS).exists():
            moment = draw.uniform(0.2, 1.0) * whole / kills
            note(f"retrieval: {passages:,} passages, killed after {seconds(moment)}")
            if not in_process("build_ours", folder, passages=passages, short=True, kill_after=moment):
                moments.append(moment)
        note(f"retrieval: {passages:,} passages, to the end")
        rest = in_process("build_ours", folder, passages=passages, short=True)["seconds"]
        total, found = time.perf_counter() - started, recorded_files(folder)
    return Table(
        f"A build of {passages:,} passages of one sentence killed {len(moments)} times and continued",
        ["build", "kills", "wall", "share", "last attempt", "share", "files", "same digests"],
        [
            ["undisturbed", "0", seconds(whole), ratio(whole, whole), "", "", str(len(expected)), ""],
            [
                *("killed and continued", str(len(moments)), seconds(total), ratio(total, whole)),
                *(seconds(rest), ratio(rest, whole), str(len(found)), "yes" if found == expected else "NO"),
            ],
        ],
        [
            f"Killed {', '.join(seconds(moment) for moment in moments)} after the start of an attempt. Digests are the "
            "SHA-256 of every file as the manifest records them. Wall time of the second includes starting the process "
            "and generating the passages for each attempt."
        ],
    )
