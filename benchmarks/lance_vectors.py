"""LanceDB over the token vectors that the benchmark `scale` makes up; needs `lancedb`, `pyarrow` and `numpy` only.

The benchmark runs it with the interpreter of `--lance-python`, since knowgap does not depend on LanceDB. The table is
in the folder or, if an address is given, on the object store of `object_store.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from engines import Anonymous, run_task, size_of
from object_store import BUCKET

_PASSAGES_AT_ONCE = 2000


def build_lance(folder: Path, *, dim: int, kind: str, lists: int, store: str | None = None) -> dict[str, Any]:
    """Write the vectors to a table, in 16 bits, and index them in inverted lists, with an index of LanceDB's kinds."""
    import pyarrow as pa

    column = pa.list_(pa.list_(pa.float16(), dim))
    schema = pa.schema([pa.field("position", pa.int32()), pa.field("vectors", column)])
    lengths = np.load(folder / "made-up" / "tokens.lengths.npy")
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    vectors = np.memmap(folder / "made-up" / "tokens.f16", np.float16, "r").reshape(-1, dim)

    def batches() -> Iterator[Any]:
        for first in range(0, len(lengths), _PASSAGES_AT_ONCE):
            cuts = starts[first : first + _PASSAGES_AT_ONCE + 1]
            flat = pa.array(np.array(vectors[cuts[0] : cuts[-1]]).ravel())
            rows = pa.FixedSizeListArray.from_arrays(flat, dim)
            passages = pa.ListArray.from_arrays(pa.array((cuts - cuts[0]).astype(np.int32)), rows)
            positions = pa.array(np.arange(first, first + len(cuts) - 1, dtype=np.int32))
            yield pa.RecordBatch.from_arrays([positions, passages], schema=schema)

    started = time.perf_counter()
    with Anonymous() as memory:
        table = _connect(folder, store).create_table(
            "passages", data=pa.RecordBatchReader.from_batches(schema, batches())
        )
        written = time.perf_counter() - started
        more = {"num_sub_vectors": dim // 4} if kind == "IVF_PQ" else {}
        table.create_index(metric="cosine", vector_column_name="vectors", index_type=kind, num_partitions=lists, **more)
    spent = time.perf_counter() - started
    return {"seconds": spent, "written": written, "bytes": size_of(folder / "lance"), "anonymous": memory.peak}


def search_lance(
    folder: Path, *, nprobes: int, refine: int, count: int, k: int, store: str | None = None
) -> dict[str, Any]:
    """Search the table with the first `count` queries; `nprobes` 0 compares all vectors."""
    table = _connect(folder, store).open_table("passages")
    saved = np.load(folder / "queries.npz")
    ids, times = [], []
    with Anonymous() as memory:
        for name in [saved.files[0], *saved.files[:count]]:  # the first one warms up
            started = time.perf_counter()
            search = table.search(saved[name], vector_column_name="vectors").distance_type("cosine").limit(k)
            search = search.nprobes(nprobes).refine_factor(refine) if nprobes else search.bypass_vector_index()
            ids.append(search.select(["position", "_distance"]).to_arrow()["position"].to_pylist())
            times.append(time.perf_counter() - started)
    return {"ids": ids[1:], "seconds": times[1:], "anonymous": memory.peak}


def _connect(folder: Path, store: str | None) -> Any:
    import lancedb  # pyright: ignore[reportMissingImports]

    if store is None:
        return lancedb.connect(folder / "lance")
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "aws_region": "us-east-1"}
    options = {"aws_endpoint": store, "allow_http": "true", **keys}
    return lancedb.connect(f"s3://{BUCKET}/lance", storage_options=options)


if __name__ == "__main__":
    run_task(build_lance, search_lance)
