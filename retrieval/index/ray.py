"""Encoding of the passages of an index by the workers of a Ray cluster.

Each chunk of passages is a task. If the worker that has it dies, Ray gives it to another one. The process that builds
writes the chunks in their order, so that an interrupted build continues as it does without a cluster.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from knowgap.errors import KnowgapError, MissingDependency, UsageError, shorten
from knowgap.retrieval.device import precision_on
from knowgap.retrieval.index.encoding import Encode
from knowgap.retrieval.index.snapshot import Block
from knowgap.retrieval.window import Encoder

_SECONDS = 10  # to wait until the head of a cluster accepts a connection


@contextmanager
def ray_cluster(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, and disconnect at the end; yields the module `ray`, or None without an address.

    The address is that of the cluster's head, `auto` for the cluster of this machine, or `local` to start one here.

    Raises:
        MissingDependency: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    if address is None:
        yield None
        return
    try:
        import ray
    except ImportError:
        raise MissingDependency("a Ray cluster needs Ray: pip install 'knowgap[ray]'") from None
    connected = ray.is_initialized()
    if not connected:
        try:
            head = urlsplit(address if "://" in address else f"//{address}")
            if head.port is not None:  # Ray would wait for minutes if no one listens
                socket.create_connection((head.hostname or "", head.port), _SECONDS).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"no Ray cluster at {address!r}: {shorten(error, 200)}") from error
    try:
        yield ray
    finally:
        if not connected:
            ray.shutdown()


def encoding_on(ray: Any, make: Callable[[], Encoder], encoder: Encoder) -> tuple[Encode, str]:
    """Make the function that encodes the passages of a build, and find the precision of the build.

    Each worker makes and keeps its own encoder by `make`, on a GPU if the cluster has GPUs. The files that the encoder
    is made from have to be at the same path on all machines. Without a cluster, `encoder` encodes in this process.

    Returns:
        The function for `encode_corpus`, and the name of the precision, see `precision_on`.

    Raises:
        UsageError: a worker cannot make the encoder. The function raises it if workers have different precisions.
    """
    if ray is None:
        return partial(map, encoder.encode_passages), precision_on(encoder.device)
    resources = ray.cluster_resources()
    kind = "GPU" if resources.get("GPU") else "CPU"
    task: Any = ray.remote(max_retries=5, retry_exceptions=False, **{f"num_{kind.lower()}s": 1})(_encode)
    key, recipe, at_once = uuid.uuid4().hex, [ray.put(make)], 2 * max(1, int(resources.get(kind, 1)))

    def result(waiting: Any) -> tuple[str, Block]:
        try:
            return ray.get(waiting)
        except KnowgapError as error:  # Ray's error is also an instance of its cause's class
            raise UsageError(
                f"a worker of the Ray cluster cannot encode: {shorten(getattr(error, 'cause', error), 300)} (the "
                "folder of an index that is built on Ray, and its checkpoint, must have the same path on all machines)"
            ) from error

    precision, _ = result(task.remote(key, recipe, []))

    def checked(waiting: Any) -> Block:
        used, block = result(waiting)
        if used != precision:
            raise UsageError(
                f"the machines of the Ray cluster encode in different precisions ({precision} and {used}), but an "
                "index needs a single one: build it on machines of one kind"
            )
        return block

    def encode(chunks: Iterable[list[str]]) -> Iterator[Block]:
        waiting: deque[Any] = deque()
        for texts in chunks:
            waiting.append(task.remote(key, recipe, texts))
            if len(waiting) == at_once:
                yield checked(waiting.popleft())
        while waiting:
            yield checked(waiting.popleft())

    return encode, precision


_encoders: dict[str, Encoder] = {}


def _encode(key: str, recipe: list[Any], texts: list[str]) -> tuple[str, Block]:
    """Encode a chunk in a worker; the recipe is in a list so that Ray fetches it only when it is needed."""
    if key not in _encoders:
        import ray

        _encoders.clear()
        make: Any = ray.get(recipe[0])
        _encoders[key] = make()
    encoder = _encoders[key]
    return precision_on(encoder.device), encoder.encode_passages(texts)
