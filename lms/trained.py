"""Loads models that were trained for a part of a method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgap.errors import CheckpointError
from knowgap.lms.providers import make_lm
from knowgap.lms.transcripts import END

TRAINED = ("know", "relevant", "decompose", "generator")
"""The arguments of programs that take a trained model: those of RA-ISF, and `generator` of RQ-RAG."""

_LONGEST = 256
"""Tokens of a query or an answer of RQ-RAG's generator at most."""


def load_trained(argument: str, where: str | Path) -> Any:
    """Load the trained model for an argument of a program.

    It is a language model of Transformers; `relevant` may also be a cross-encoder, whose threshold is even odds.

    Args:
        argument: a name of `TRAINED`.
        where: the model's folder; for a language model also its name on the hub, or as NAME@URL the name that a server
            has for it and the server's address.

    Raises:
        CheckpointError: the folder holds no such model.
    """
    name, at, server = str(where).partition("@http")
    if at:
        return make_lm(f"openai/{name}", api_base=f"http{server}", max_tokens=_LONGEST)
    folder = Path(where).expanduser()
    config = folder / "config.json"
    on_hub = argument == "generator" and name.count("/") == 1 and name[0] not in "./~" and not folder.exists()
    if not (config.is_file() or on_hub):
        raise CheckpointError(f"no model at {name!r}: the folder must hold a config.json, as `knowgap train` makes it")
    if config.is_file() and "ForSequenceClassification" in config.read_text(encoding="utf-8"):
        if argument != "relevant":
            raise CheckpointError(f"{folder} scores pairs of texts and writes none: it cannot be {argument}")
        from knowgap.retrieval.rerankers.reranker import CrossEncoderReranker

        return CrossEncoderReranker(folder, default_threshold=0.0)
    if argument != "generator":
        return make_lm(f"hf/{folder}")
    if config.is_file() and not any(END in file.read_text(encoding="utf-8") for file in folder.glob("*token*.json")):
        raise CheckpointError(
            f"the model at {name!r} is not a generator for RQ-RAG: its tokenizer lacks the control tokens; make one "
            f"from it with `knowgap train rq-rag` and --model {name}"
        )
    return make_lm(f"hf/{folder}", max_new_tokens=_LONGEST)
