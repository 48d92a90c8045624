"""Compare a build that is killed at random moments and continued with an undisturbed one."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path

from engines import OURS, in_process, recorded_files
from table import Table, note, ratio, seconds


def killed_builds(passages: int, kills: int) -> Table:
    """Build an index twice, the second time with kills (SIGKILL) at random moments.

    Each attempt runs for at most `1 / kills` of the undisturbed time, so that the kills come before the build ends. If
    it ends earlier all the same, there are fewer kills; the table has their number.

    Args:
        passages: number of passages of the fictional encyclopedia. Only their first sentences are indexed: encoding
            whole passages takes several times as long and shows nothing else.
        kills: number of kills.
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
        total, files = time.perf_counter() - started, recorded_files(folder)
    return Table(
        f"A build of {passages:,} passages of one sentence killed {len(moments)} times and continued",
        ["build", "kills", "wall", "share", "last attempt", "share", "files", "same digests"],
        [
            ["undisturbed", "0", seconds(whole), ratio(whole, whole), "", "", str(len(expected)), ""],
            [
                *("killed and continued", str(len(moments)), seconds(total), ratio(total, whole)),
                *(seconds(rest), ratio(rest, whole), str(len(files)), "yes" if files == expected else "NO"),
            ],
        ],
        [
            f"Killed {', '.join(seconds(moment) for moment in moments)} after the start of an attempt. Digests are the "
            "SHA-256 of every file as the manifest records them. Wall time of the second includes starting the process "
            "and generating the passages for each attempt."
        ],
    )
