"""The provenance of a result: everything that can make two results differ."""

from __future__ import annotations

import copy
import functools
import platform
import re
from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.answers import reference_answers
from knowgap.lms.cache import CONNECTION_OPTIONS, ENDPOINT_SETTINGS
from knowgap.plugins import outside_facts
from knowgap.programs.base import Program
from knowgap.programs.replies.asking import default_sampling
from knowgap.storage.files import folder_digest, json_digest

_SECRET = re.compile("key|auth|secret|password|base|url|endpoint|header|credential|organization|token$", re.IGNORECASE)
"""What is in the name of a setting that is a secret or the address of a server."""
_PACKAGES = ("knowgap", "dspy", "optuna", "colbert-ai", "torch", "transformers")


class Provenance(BaseModel, extra="allow"):
    """Everything that a result was obtained with.

    Attributes:
        program: name in the registry.
        hyperparameters: value by name.
        state: digest of demonstrations, instructions and hyperparameters together.
        retriever: see `retriever_facts`.
        models: see `model_facts`.
        lm: model name, without secrets or endpoint.
        lm_settings: see the function `lm_settings`.
        split: the split of the data ("train", "dev", "test"); empty if the caller did not say.
        data: digest of the questions and their answers.
        seed: the seed of the bootstrap intervals and other random numbers.
        versions: versions of Python and of the packages that matter.
        outside: the program, index, models and metrics that are not knowgap's own: `name` as `module:Name`, and
            `sha256` of the file that defines it, or in a notebook of its code.
    """

    program: str = ""
    hyperparameters: dict[str, Any] = {}
    state: str = ""
    retriever: dict[str, Any] = {}
    models: dict[str, dict[str, str]] = {}
    lm: str = ""
    lm_settings: dict[str, Any] = {}
    split: str = ""
    data: str = ""
    seed: int = 0
    versions: dict[str, str] = {}
    outside: dict[str, dict[str, str]] = {}


def provenance_of(
    program: Program,
    examples: Sequence[dspy.Example],
    lm: dspy.BaseLM | str | None,
    *,
    metrics: Mapping[str, Any] | None = None,
    split: str = "",
    seed: int = 0,
    **more: Any,
) -> Provenance:
    """Collect the provenance of a result; `more` becomes further fields."""
    parts, measured = program.parts(), {f"metric {name}": metric for name, metric in (metrics or {}).items()}
    return Provenance(
        program=program.name,
        hyperparameters=program.values(),
        state=json_digest(state_of(program)),
        retriever=retriever_facts(program.retriever),
        models=model_facts(program),
        lm=lm_name(lm),
        lm_settings=lm_settings(lm),
        split=split,
        data=examples_digest(examples) if examples else "",
        seed=seed,
        versions=versions(),
        outside=outside_facts({"program": type(program), **parts, **measured}),
        **more,
    )


def state_of(program: Program) -> dict[str, Any]:
    """The program's demonstrations, instructions and hyperparameters, without any language model's state."""
    state: dict[str, Any] = {}
    for name, parameter in program.named_parameters():
        if getattr(parameter, "lm", None) is not None:
            parameter = copy.copy(parameter)
            parameter.lm = None
        state[name] = parameter.dump_state()
    return state


def examples_digest(examples: Sequence[dspy.Example]) -> str:
    """SHA-256 of questions and answers in their order."""
    return json_digest([[str(e.get("id") or ""), e.question, reference_answers(e)] for e in examples])


def retriever_facts(retriever: Any) -> dict[str, Any]:
    """Engine, digest and size of an index, as far as they are known; empty if there is none."""
    if retriever is None:
        return {}
    manifest = getattr(retriever, "manifest", None)
    facts: dict[str, Any] = {
        "digest": getattr(retriever, "digest", None) or getattr(manifest, "digest", None),
        "name": getattr(retriever, "name", None) or getattr(manifest, "engine", None) or type(retriever).__name__,
        "passages": len(retriever) if isinstance(retriever, Sized) else None,
    }
    return {key: value for key, value in facts.items() if isinstance(value, (str, int))}


def model_facts(program: Program) -> dict[str, dict[str, str]]:
    """The program's models by argument: the path and digest of one that knowgap trained, the name of any other."""
    parts = {name: program.parts().get(name) for name in ("reranker", "entailment")}
    parts |= {argument: getattr(program, attribute) for argument, attribute in program.sub_models.items()}
    facts: dict[str, dict[str, str]] = {}
    for argument, part in parts.items():
        model: Any = part.lm if isinstance(part, dspy.Predict) else part
        if model is None:
            continue
        name = lm_name(model) if isinstance(model, dspy.BaseLM) else str(getattr(model, "name", type(model).__name__))
        folder = Path(name.removeprefix("hf/"))
        if argument in program.sub_models and (folder / "config.json").is_file():
            facts[argument] = {"path": str(folder.resolve()), "digest": folder_digest(folder)}
            continue
        facts[argument] = {"name": folder.name if folder.is_dir() else name}
        if digest := getattr(model, "digest", ""):
            facts[argument]["digest"] = digest
    return facts


def lm_name(lm: Any) -> str:
    """The name of a language model, without secrets or endpoint; a string is itself the name."""
    return "" if lm is None else lm if isinstance(lm, str) else str(getattr(lm, "model", type(lm).__name__))


def lm_settings(lm: Any) -> dict[str, Any]:
    """The options of a language model's calls, such as the temperature, without secrets.

    Timeouts and retries are left out, since they change no answer. `endpoint` is a digest of the server's address, if
    one is given.
    """
    kwargs = getattr(lm, "kwargs", None) or {}
    settings = {name: value for name, value in _shown(kwargs).items() if name not in CONNECTION_OPTIONS}
    if endpoint := [kwargs[name] for name in ENDPOINT_SETTINGS if kwargs.get(name)]:
        settings["endpoint"] = json_digest(endpoint)[:12]
    return default_sampling(lm) | settings


def _shown(value: Any) -> Any:
    """A JSON value without secrets."""
    if isinstance(value, Mapping):
        shown = {str(name): _shown(part) for name, part in value.items() if not _SECRET.search(str(name))}
        return {name: part for name, part in shown.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_shown(part) for part in value]
    return value if isinstance(value, (str, int, float)) else None


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed
