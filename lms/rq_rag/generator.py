"""RQ-RAG's generator: a causal model of Transformers that was trained on its transcripts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import dspy

from knowgap.errors import CheckpointError, LanguageModelError
from knowgap.lms.local.loading import load_model, load_tokenizer, read_config
from knowgap.lms.providers import GENERATOR
from knowgap.lms.rq_rag.layout import CONTROL_TOKENS, TranscriptLayout
from knowgap.lms.rq_rag.prefix_cache import can_share
from knowgap.lms.rq_rag.served import CompletionServer, ServedTree
from knowgap.lms.rq_rag.tree import TranscriptTree
from knowgap.retrieval.passage import NeverCopied
from knowgap.storage.files import folder_digest

_END = CONTROL_TOKENS[-1]
_LONGEST = 4096  # tokens of the transcripts that the paper trains on


class _NoLanguageModel:
    """The engine of a language model that only names a generator."""

    def __init__(self, name: str):
        self.name = name

    def complete(self, request: Any) -> Any:
        """Refuse to answer."""
        raise LanguageModelError(
            f"the generator {self.name!r} writes transcripts and cannot answer prompts: set an lm as well"
        )


class TranscriptGenerator(NeverCopied):
    """A causal model that writes RQ-RAG's transcripts, such as `knowgap train rq-rag` makes or the released checkpoint.

    It is loaded at the first question and kept. Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented
    Generation", sections 2.2 and 2.3, appendix B.

    Args:
        path_or_id: a model folder, or a name on the hub.
        server: the address of an OpenAI-compatible server that runs the model, such as vLLM; only the configuration and
            the tokenizer are then read from the folder. See `CompletionServer`.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        share: compute the common prefixes of branches once; by default if the model's cache allows it.
        max_new_tokens: the most tokens of a query or an answer; a longer one counts as unreadable.
        max_length: the most tokens of a transcript; by default what the model allows, but at most 4,096.
        batch_size: branches that are written together; each takes memory for a whole path, and each node of the tree
            for its own tokens.

    Raises:
        CheckpointError: the folder holds no model, or one without control tokens.
        LanguageModelError: at the first question, if the model cannot be loaded.
    """

    def __init__(
        self,
        path_or_id: str | Path,
        *,
        server: str | None = None,
        device: str | None = None,
        share: bool | None = None,
        max_new_tokens: int = 256,
        max_length: int | None = None,
        batch_size: int = 16,
    ):
        folder = Path(path_or_id).expanduser()
        looks_like_path = str(path_or_id).startswith((".", "/", "~")) or str(path_or_id).count("/") != 1
        if looks_like_path and not (folder / "config.json").is_file():
            raise CheckpointError(f"no generator at {str(path_or_id)!r}: the folder must hold a config.json")
        if folder.is_dir() and not any(_END in file.read_text("utf-8") for file in folder.glob("*token*.json")):
            raise CheckpointError(
                f"the model at {str(path_or_id)!r} is not a generator for RQ-RAG: its tokenizer lacks the control "
                f"tokens; make one from it with `knowgap train rq-rag` and --model {path_or_id}"
            )
        self.name = str(folder) if folder.is_dir() else str(path_or_id)
        self.device, self.share, self.batch_size = device, share, batch_size
        self.max_new_tokens, self.max_length = max_new_tokens, max_length
        self._lock = threading.RLock()
        self._server = CompletionServer(server, self.name) if server is not None else None
        self._loaded: tuple[Any, TranscriptLayout] | None = None

    def start(self, question: str, instruction: str) -> TranscriptTree:
        """Begin the transcript of a question; `instruction` says how the answer should be worded."""
        with self._lock:
            model, layout = self._load()
        config = model.config if self._server is None else model
        allowed = getattr(config, "max_position_embeddings", None) or _LONGEST
        settings: dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "max_length": min(self.max_length or _LONGEST, allowed),
            "batch_size": self.batch_size,
        }
        prompt = layout.prompt(instruction, question)
        if self._server is not None:
            return ServedTree(self._server, layout, prompt, **settings)
        return TranscriptTree(model, layout, prompt, share=bool(self.share), lock=self._lock, **settings)

    @property
    def folder(self) -> Path | None:
        """Where the model is; None for a name on the hub."""
        return Path(self.name) if Path(self.name).is_dir() else None

    @property
    def digest(self) -> str:
        """SHA-256 of the files of the model's folder; the name of a model on the hub."""
        return folder_digest(self.folder) if self.folder else self.name

    @property
    def lm(self) -> dspy.LM:
        """A language model with the generator's name, for results to name; it answers no prompt."""
        return dspy.LM(f"{GENERATOR}{Path(self.name).name}", engine=_NoLanguageModel(self.name), cache=False)

    def close(self) -> None:
        """Release the model."""
        with self._lock:
            self._loaded = None
        if self._server is not None:
            self._server.close()

    def _load(self) -> tuple[Any, TranscriptLayout]:
        """The model, or its configuration if a server runs it, and the layout of its transcripts."""
        if self._loaded is None and self._server is not None:
            self._loaded = read_config(self.name), TranscriptLayout(load_tokenizer(self.name))
        if self._loaded is None:
            loaded = load_model(self.name, self.device)
            if loaded.is_seq2seq:
                raise LanguageModelError(f"{self.name!r} is a sequence-to-sequence model; a generator must be causal")
            can = can_share(loaded.model)
            self.share = can if self.share is None else self.share and can
            self._loaded = loaded.model, TranscriptLayout(loaded.tokenizer)
        return self._loaded
