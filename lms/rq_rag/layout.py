"""The layout of RQ-RAG's transcripts, as token ids.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", equation 1; the layout is that of the
data which the released Llama-2 checkpoint was trained on for questions of several steps::

    <s><|system|>
    how the answer should be worded</s>
    <|user|>
    the question</s>
    <|assistant|>
    [S_Decomposed_Query]
    a query
    [EOS]
    [R_Evidences]
    Title: …
    Text: …
    [/R_Evidences]
    [A_Response]
    the answer
    [EOS]

A step is a control token that names the action, a query, and its evidence; there are any number of steps. The release
writes its chats without line breaks around the evidence, and decodes without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowgap.errors import LanguageModelError
from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
from knowgap.retrieval.passage import Passage

_EVIDENCE, _EVIDENCE_END, _END = "[R_Evidences]", "[/R_Evidences]", "[EOS]"
ACTION_TOKENS = {
    "rewrite": "[S_Rewritten_Query]",
    "decompose": "[S_Decomposed_Query]",
    "disambiguate": "[S_Disambiguated_Query]",
    "answer": "[A_Response]",
}
"""The control token of each action; the last one begins the answer."""
CONTROL_TOKENS = (*ACTION_TOKENS.values(), _EVIDENCE, _EVIDENCE_END, _END)


def add_control_tokens(tokenizer: Any, model: Any = None) -> None:
    """Add the control tokens that a tokenizer lacks, and resize a model's embeddings.

    New embeddings are drawn around the mean of the others (Transformers' `mean_resizing`).
    """
    tokenizer.add_special_tokens(
        {"additional_special_tokens": list(CONTROL_TOKENS)}, replace_extra_special_tokens=False
    )
    if model is not None and len(tokenizer) > model.get_input_embeddings().num_embeddings:
        with quiet_transformers():
            model.resize_token_embeddings(len(tokenizer))


class TranscriptLayout:
    """Writes the parts of a transcript as token ids, and reads what a model wrote.

    Concatenated in order, the parts are the ids of the whole transcript. Control tokens in a question or a passage are
    written with a space in them, so that no text can steer the transcript.

    Args:
        tokenizer: the tokenizer of a model that was trained on such transcripts.

    Raises:
        LanguageModelError: the tokenizer lacks control tokens.
    """

    def __init__(self, tokenizer: Any):
        known = tokenizer.get_vocab()
        if missing := [token for token in CONTROL_TOKENS if token not in known]:
            raise LanguageModelError(
                f"the model at {tokenizer.name_or_path!r} is not a generator for RQ-RAG: its tokenizer lacks "
                f"{', '.join(missing)}; train it with `knowgap train rq-rag` and --model {tokenizer.name_or_path}"
            )
        self.tokenizer = tokenizer
        self.actions = {action: known[token] for action, token in ACTION_TOKENS.items()}
        self.end = known[_END]
        self.stops = {self.end, *([tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else [])}
        self._special = {known[token] for token in CONTROL_TOKENS} | set(tokenizer.all_special_ids)
        marks = sorted({*CONTROL_TOKENS, *tokenizer.all_special_tokens}, key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, marks)))

    def prompt(self, instruction: str, question: str, history: Iterable[Mapping[str, str]] = ()) -> list[int]:
        """The ids of everything before the first control token.

        Args:
            instruction: how the answer should be worded.
            question: the last message of the user.
            history: earlier messages, with `role` (user or assistant) and `content`.
        """
        begin, end = self.tokenizer.bos_token or "", self.tokenizer.eos_token or ""
        turns = [("system", instruction), *((turn["role"], turn["content"]) for turn in history), ("user", question)]
        shown = "".join(f"<|{role}|>\n{self._harmless(text)}{end}\n" for role, text in turns)
        return self._encode(f"{begin}{shown}<|assistant|>\n")

    def written(self, action: str, text: str) -> list[int]:
        """The ids that a model writes at a time: the control token of an action, a query or the answer, and the end."""
        return self._encode(f"{ACTION_TOKENS[action]}\n{self._harmless(text)}\n{_END}")

    def evidence(self, passages: Iterable[Passage]) -> list[int]:
        """The ids of what a query found, which follow the query; without passages, the evidence is an empty block."""
        shown = "".join(f"Title: {self._harmless(p.title)}\nText: {self._harmless(p.text)}\n" for p in passages)
        # Some tokenizers mark the beginning of a text; here, they mark an end token, which is cut off.
        return self._encode(f"{_END}\n{_EVIDENCE}\n{shown}{_EVIDENCE_END}\n")[1:]

    def read(self, ids: Sequence[int]) -> tuple[str, str]:
        """Decode the text after a control token; return the text (or "") and why it cannot be read (or "").

        Args:
            ids: the tokens, with the end and without the control token.
        """
        if not ids or ids[-1] not in self.stops:
            return "", f"no {_END} within {len(ids)} tokens"
        if stray := [token for token in ids[:-1] if token in self._special]:
            return "", f"{self.tokenizer.convert_ids_to_tokens(stray[0])} within the text"
        text = str(self.tokenizer.decode(ids[:-1])).strip()
        return text, "" if text else "no text"

    def _harmless(self, text: str) -> str:
        return self._marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text.strip())

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
