"""Generate with Transformers' continuous batching: a reply at its end makes room for the next prompt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from knowgap.errors import shorten
from knowgap.lms.local.batching import resolve
from knowgap.lms.local.jobs import GenerationJob, Reply, ScoredToken
from knowgap.lms.local.loading import LocalModel
from knowgap.lms.local.padded import generation_config

__all__ = ["ContinuousBatching"]

_LOG = logging.getLogger("knowgap")

_LOOK = 0.02
"""Seconds between two looks whether jobs have come or were cancelled."""
_GPU_SHARE, _CPU_SHARE = 0.5, 0.1
"""Shares of the free memory that the cache of keys and values takes: encoders and rerankers need some as well."""


class ContinuousBatching:
    """Runs greedy jobs of a causal model through `model.continuous_batching_context_manager`.

    A job that draws tokens, has stop texts, or wants more log-probabilities than those of its tokens goes elsewhere:
    Transformers keeps one state of random numbers for all requests, and knows neither of the other two. If the model
    cannot be asked so, this says so once, and `usable` becomes False.
    """

    def __init__(self, local: LocalModel):
        self._local = local
        self._config = generation_config(local, 1)
        self.usable = self._supported()

    def _supported(self) -> bool:
        """Whether the model has attention of Transformers' common kind, and no settings that need the whole text."""
        model = self._local.model
        if self._local.is_seq2seq or not hasattr(model, "continuous_batching_context_manager"):
            return False
        stateless = not getattr(model, "_is_stateful", False) and getattr(model, "_supports_attention_backend", False)
        return bool(stateless) and not model._get_logits_processor(self._config)

    def accepts(self, job: GenerationJob) -> bool:
        """Whether a job can be run here."""
        return self.usable and job.temperature == 0 and not job.stop and job.logprobs in (None, 0)

    def run(self, jobs: Sequence[GenerationJob], take: Callable[[], Sequence[Any]]) -> list[GenerationJob]:
        """Resolve jobs, and those that `take` gives meanwhile; return those that could not be run.

        It ends when no job is left and `take` gives none.
        """
        active: dict[str, GenerationJob] = {}
        failed: list[GenerationJob] = []
        try:
            with self._session() as manager:
                while jobs or active:
                    for job in jobs:
                        name = manager.add_request(
                            job.ids, max_new_tokens=job.limit, eos_token_id=list(self._local.end_ids)
                        )
                        if name is None:
                            raise _ended(manager)
                        active[name] = job
                    self._collect(manager, active, failed)
                    jobs = take()
        except Exception as error:  # whatever the model's code raises where it cannot be run so
            _LOG.warning(
                "%s takes no continuous batching (%s): its prompts go in padded batches",
                self._local.name, shorten(error, 200),
            )  # fmt: skip
            self.usable = False
            failed += [*active.values(), *(job for job in jobs if job not in active.values())]
        return [job for job in failed if not job.future.done()]

    def _session(self) -> Any:
        import torch
        from transformers import ContinuousBatchingConfig

        device, dtype = self._local.device.type, self._local.model.dtype
        config = ContinuousBatchingConfig(
            max_memory_percent=_CPU_SHARE if device == "cpu" else _GPU_SHARE,
            return_logprobs=True,
            auto_switch_to_flash=dtype in (torch.float16, torch.bfloat16),  # flash attention takes no other
        )
        return self._local.model.continuous_batching_context_manager(
            generation_config=self._config, continuous_batching_config=config, persistent_manager=True, warmup=False
        )

    def _collect(self, manager: Any, active: dict[str, GenerationJob], failed: list[GenerationJob]) -> None:
        """Wait a moment for a result, resolve the jobs that are done, and forget those that were cancelled."""
        result = manager.get_result(timeout=_LOOK)
        while result is not None:
            job = active.pop(result.request_id, None)
            if job is not None and result.error is not None:
                failed.append(job)
            elif job is not None:
                resolve(job.future, self._reply(result, job))
            result = manager.get_result(timeout=0) if not manager.output_router.output_queue.empty() else None
        for name in [name for name, job in active.items() if job.future.cancelled()]:
            manager.cancel_request(name)
            del active[name]
        if not manager.is_running():
            raise _ended(manager)

    def _reply(self, result: Any, job: GenerationJob) -> Reply:
        tokens = list(result.generated_tokens)
        scores = [] if job.logprobs is None else [
            ScoredToken(token, value) for token, value in zip(tokens, result.logprobs, strict=True)
        ]  # fmt: skip
        return Reply(tokens, bool(tokens) and tokens[-1] in self._local.end_ids, scores)


def _ended(manager: Any) -> RuntimeError:
    """The error that the manager's thread has ended, or is about to."""
    return RuntimeError(manager.background_thread_status.fatal_error or "its thread has ended")
