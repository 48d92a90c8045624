"""Save a compiled program to a folder, and load it without running code from the folder.

`program.json` is the program's state as DSPy saves it: demonstrations, instructions and hyperparameters. `config.json`
holds the program's `Provenance`, the scores that were kept, and what compiling cost. `card.md` is its model card.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import dspy
import orjson
from dspy.utils.saving import get_dependency_versions

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.provenance import Provenance, provenance_of, state_of
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.statistics import Interval
from knowgap.errors import ArtifactError, UsageError
from knowgap.lms.metering import Usage
from knowgap.lms.providers import load_trained
from knowgap.plugins import reference_of
from knowgap.programs import PROGRAMS, get_program, program_reference
from knowgap.programs.base import Program
from knowgap.programs.modules import ModuleLike, ModuleProgram, as_program
from knowgap.retrieval.indexes import as_retriever
from knowgap.retrieval.passage import RetrieverLike
from knowgap.storage.files import write_file, write_folder

_PREDICTOR_KEYS = ("traces", "train", "demos", "signature", "fields")


def save(
    program: Program | dspy.Module,
    folder: str | Path,
    *,
    lm: dspy.BaseLM | str | None = None,
    data: Dataset | None = None,
    evaluations: Mapping[str, Evaluation] | None = None,
    cost: Usage | None = None,
) -> Path:
    """Write a program to a folder that `load` reads.

    No secrets, endpoints or paths are written, except the paths of trained sub-models. The folder is written
    atomically and replaces an earlier artifact.

    Args:
        program: a program whose class is in `knowgap.programs.PROGRAMS` or in an importable module, or a DSPy module.
        folder: the folder of the artifact.
        lm: the language model the program was compiled with, or its name; default: the one DSPy is configured with.
        data: the data set the program was compiled on.
        evaluations: evaluations whose scores are kept with the program, by a label such as "test after".
        cost: what compiling cost.

    Raises:
        UsageError: the program cannot be saved, since its class is in no importable module, or the folder holds
            something other than an artifact.

    >>> import knowgap
    >>> knowgap.save(knowgap.get_program("direct")(), "saved", lm="openai/any").name
    'saved'
    """
    target, saved = Path(folder), as_program(program)
    splits = {} if data is None else {name: len(examples) for name, examples in data.splits.items()}
    reference, model = check_savable(saved, target), lm if lm is not None else dspy.settings.lm
    origin = provenance_of(saved, [], model)
    config: dict[str, Any] = {
        **origin.model_dump(exclude={"split", "data", "seed"}),
        "program": reference,
        **({"module": reference_of(saved.code)} if isinstance(saved, ModuleProgram) else {}),
        "demonstrations": {name: len(each.demos) for name, each in saved.named_predictors() if each.demos},
        "data": {}
        if data is None
        else {"name": data.name, "fingerprint": data.fingerprint, "splits": splits, "passages": len(data.corpus)},
        "evaluations": {label: evaluation.summary() for label, evaluation in (evaluations or {}).items()},
        "cost": {} if cost is None else cost.model_dump(),
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    state = {**state_of(saved), "metadata": {"dependency_versions": get_dependency_versions()}}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    with write_folder(target) as unfinished:
        write_file(unfinished / "program.json", orjson.dumps(state, option=options))
        write_file(unfinished / "config.json", orjson.dumps(config, option=options))
        write_file(unfinished / "card.md", _card(config, saved))
    return target


def check_savable(program: Program, target: Path) -> str:
    """The name under which `save` records the class of a program; raises `UsageError` if it cannot be saved there."""
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / "program.json").exists())):
        raise UsageError(f"{target} already exists and is not an artifact: name another folder")
    return program_reference(type(program), lasting=True)


def load(
    folder: str | Path,
    *,
    retriever: RetrieverLike | None = None,
    lm: dspy.BaseLM | None = None,
    expect: str | type[Program] | ModuleLike | None = None,
    **models: Any,
) -> Program:
    """Read a program that `save` wrote.

    Only demonstrations, instructions, hyperparameters and the paths of trained models are read from the folder. A
    trained model that is not given is loaded from its recorded path. A class from outside knowgap is imported only if
    `expect` names it, or if its module has already been imported.

    Args:
        folder: the folder of the artifact.
        retriever: the index to search, its folder, or the URL of its server.
        lm: the language model of all its predictors; default: the one DSPy is configured with.
        expect: the name or class that the program must have; a class from outside knowgap may then be imported. For a
            DSPy module, its class, or an instance, of which the program gets a copy.
        **models: as the program's constructor takes them (`reranker`, `entailment`; `know`, `relevant`, `decompose` of
            RA-ISF, `generator` of RQ-RAG), or the folders of trained ones.

    Raises:
        ArtifactError: the folder is absent, or no artifact, or of an unknown program or of another one than expected;
            or a recorded model is not there.
        ValueOutOfBounds: a hyperparameter is out of bounds.
        IndexFolderError: the index cannot be opened.
        CheckpointError: a given folder holds no such model.
        UnknownName: a model for a program that has no such part.

    Warns:
        UserWarning: it was compiled with another index, model, language model or DSPy, or with a model that is absent.

    >>> import knowgap
    >>> folder = knowgap.save(knowgap.get_program("direct")(), "to-load", lm="openai/any")
    >>> knowgap.load(folder).name
    'direct'
    """
    path = Path(folder)
    config = _read_config(path)
    cls = artifact_class(path, expect)
    given = {part: model for part, model in models.items() if model is not None}
    for part in cls.sub_models:
        where: Any = given.get(part)
        if where is None and (recorded := config["models"].get(part, {}).get("path")):
            where = Path(recorded)
            if not where.is_dir():  # a file must not name a model on the hub, or a server
                raise ArtifactError(f"{path} was saved with a model in {where}, which is not there: name {part}=FOLDER")
        if isinstance(where, (str, Path)):
            given[part] = load_trained(part, where)
    program = cls(as_retriever(retriever), **given)
    own = {name: predictor.lm for name, predictor in program.named_predictors()}
    program.load_state(_known_state(program, orjson.loads((path / "program.json").read_bytes())))
    for name, predictor in program.named_predictors():
        predictor.lm = own[name] or lm  # a trained model goes over the language model of the others
    _warn_of_differences(config, provenance_of(program, [], lm if lm is not None else dspy.settings.lm))
    return program


def artifact_class(folder: str | Path, expect: str | type[Program] | ModuleLike | None = None) -> type[Program]:
    """The class that an artifact names, if it is the expected one; raises `ArtifactError` as `load` does.

    The name in the file alone does not cause the import of a module that is not part of knowgap: the caller must name
    the program, or the module must have been imported already.
    """
    config = _read_config(Path(folder))
    name = config["program"]
    if expect is None and name not in PROGRAMS and name.partition(":")[0] not in sys.modules:
        raise ArtifactError(
            f"{folder} holds the program {name}, which is not part of knowgap, and runs a module; if you trust it, "
            f"name it as well: --program {name}:FOLDER, or in Python expect={name!r}"
        )
    try:
        kind = get_program(name if expect is None else expect)
    except UsageError as error:
        raise ArtifactError(f"{folder}: {error}") from error
    if program_reference(kind) != name and reference_of(getattr(kind, "code", None)) != config.get("module"):
        raise ArtifactError(f"{folder} holds the program {name!r}, not {program_reference(kind)!r}")
    return kind


def _read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of an artifact; raises `ArtifactError` if the folder is none."""
    file = folder / "config.json"
    config: Any = orjson.loads(file.read_bytes()) if file.exists() else {}
    if "program" not in config:
        within = folder / "artifact"
        hint = f"; {within} is one" if (within / file.name).is_file() else ""
        raise ArtifactError(f"{folder} is not an artifact: it has no config.json with a program{hint}")
    return config


def _known_state(program: Program, state: dict[str, Any]) -> dict[str, Any]:
    """The parts of a saved state that the program declares; a file could name any attribute, even an endpoint."""
    kept: dict[str, Any] = {}
    for name, parameter in program.named_parameters():
        if name not in state:
            raise ArtifactError(f"the artifact has no {name}, as {program.name} has by now: compile it again")
        is_predictor = isinstance(parameter, dspy.Predict)
        keys = _PREDICTOR_KEYS if is_predictor else cast("Any", parameter).dump_state()
        kept[name] = {key: state[name][key] for key in keys if key in state[name]}
        if is_predictor:
            kept[name]["lm"] = None
    return kept


def _warn_of_differences(config: dict[str, Any], now: Provenance) -> None:
    def facts(origin: Mapping[str, Any]) -> dict[str, str | None]:
        return {
            "index": origin["retriever"].get("digest"),
            **{argument: each.get("digest") or each["name"] for argument, each in origin["models"].items()},
            "language model": origin["lm"],
            "file of the program": origin["outside"].get("program", {}).get("sha256"),
            "DSPy version": origin["versions"].get("dspy"),
        }

    after = facts(now.model_dump())
    for what, old in facts(config).items():
        new, begun = after.get(what), f"this {config['program']} was compiled with"
        if old and new and old != new:
            warnings.warn(f"{begun} another {what}: {old[:60]}, not {new[:60]}", stacklevel=3)
        elif old and not new and what in config["models"]:
            warnings.warn(f"{begun} the {what} {old[:60]}, and has none now: give {what}=…", stacklevel=3)


def _card(config: dict[str, Any], program: Program) -> str:
    """The text of `card.md`: what a reader wants to know of `config.json`."""
    index, data, declared = config["retriever"], config["data"], program.hyperparameters()
    settings = [f"{name}={value}" for name, value in config["lm_settings"].items() if name != "endpoint"]
    facts = {
        "program": f"`{config['program']}`",
        "language model": ", ".join([config["lm"] or "not said", *settings]),
        "index": f"{index.get('name', 'none')}, {index.get('passages', '?')} passages, {index.get('digest', '?')[:16]}",
        **{f"model `{name}`": each.get("digest", each.get("name"))[:60] for name, each in config["models"].items()},
        "data": f"{data.get('name', 'not said')}, {data.get('fingerprint', '?')[:16]}",
        "made": f"{config['created']}, by knowgap {config['versions'].get('knowgap', '?')}",
        **{f"demonstrations of `{name}`": number for name, number in config["demonstrations"].items()},
        **{f"cost: {name}": value for name, value in config["cost"].items()},
    }
    values = {
        f"`{name}` = `{value}`": f"{declared[name].help}; default `{declared[name].default}`"
        for name, value in config["hyperparameters"].items()
    }
    scores = {
        f"{label}: {metric}": f"{Interval(**score)} of {score['n']} questions, {evaluation['failed']} failed"
        for label, evaluation in config["evaluations"].items()
        for metric, score in evaluation["scores"].items()
    }
    use = {"in Python": '`knowgap.load("PATH/OF/THIS/FOLDER", retriever="PATH/OF/THE/INDEX")`'}
    text = f"# {type(program).__name__}, compiled\n"
    for title, rows in {"Facts": facts, "Scores": scores, "Hyperparameters": values, "Use": use}.items():
        text += f"\n## {title}\n\n" + "".join(f"- {name}: {value}\n" for name, value in rows.items())
    return text
