"""RQ-RAG's transcripts: the form in which its trained generator reads a question with its queries, and writes on.

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

A step is a control token that names the action, a query, and its evidence; there are any number of steps. The chat
template writes the turns, so that any server which continues the last message can run a generator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import AdapterParseError

from knowgap.retrieval.passage import Passage

EVIDENCE, EVIDENCE_END, END = "[R_Evidences]", "[/R_Evidences]", "[EOS]"
ACTION_TOKENS = {
    "rewrite": "[S_Rewritten_Query]",
    "decompose": "[S_Decomposed_Query]",
    "disambiguate": "[S_Disambiguated_Query]",
    "answer": "[A_Response]",
}
"""The control token of each action; the last one begins the answer."""
CONTROL_TOKENS = (*ACTION_TOKENS.values(), EVIDENCE, EVIDENCE_END, END)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for turn in messages %}<|{{ turn['role'] }}|>\n{{ turn['content'] }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)

_MARKS = re.compile(r"\[(?=/?(?:S_|R_E|A_R|EOS\]))|<(?=[/|]?\w+\|?>)")
"""Where a control token, the name of a role or a special token such as `</s>` begins."""


class TranscriptStep(NamedTuple):
    """A query of a transcript: its action, its text, and the passages that it found, best first."""

    action: str
    query: str
    passages: Sequence[Passage]


def transcript(style: str, question: str, steps: Iterable[TranscriptStep], following: str) -> list[dict[str, str]]:
    """The messages of a transcript, of which the last one is continued.

    Marks in a question, a query or a passage are written with a space in them, so that no text steers the transcript.

    Args:
        style: how the answer should be worded.
        question: the message of the user.
        steps: the queries in order.
        following: what comes after the steps: the control token of an action, or the whole answer (`written`).
    """
    shown = [{"role": "system", "content": _harmless(style)}, {"role": "user", "content": _harmless(question)}]
    done = "".join(f"{written(step.action, step.query)}\n{_evidence(step.passages)}\n" for step in steps)
    return [*shown, {"role": "assistant", "content": done + following}]


def written(action: str, text: str) -> str:
    """What a generator writes at a time: the control token of an action, a query or the answer, and the end."""
    return f"{ACTION_TOKENS[action]}\n{_harmless(text)}\n{END}"


def _evidence(passages: Sequence[Passage]) -> str:
    shown = "".join(f"Title: {_harmless(each.title)}\nText: {_harmless(each.text)}\n" for each in passages)
    return f"{EVIDENCE}\n{shown}{EVIDENCE_END}"


def _harmless(text: str) -> str:
    return _MARKS.sub(lambda mark: f"{mark[0]} ", text.strip())


class TranscriptAdapter(dspy.Adapter):
    """Shows a predictor's inputs as a transcript, which a generator continues with a query or an answer.

    Demonstrations are not shown: a generator has learnt the form.

    Args:
        actions: those of the earlier queries in order, and the one that is due.
        style: how the answer should be worded.
    """

    def __init__(self, actions: Sequence[str], style: str):
        super().__init__()
        self.actions, self.style = actions, style

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Ask the generator; a server is told to continue the last message, and an engine in this process does."""
        options: dict[str, Any] = {"stop": [END]}
        if isinstance(lm.engine, str):
            going_on = {"continue_final_message": True, "add_generation_prompt": False, "skip_special_tokens": False}
            options["extra_body"] = {**(lm.kwargs.get("extra_body") or {}), **going_on}
        return super().__call__(lm, {**lm_kwargs, **options}, signature, demos, inputs)

    def format(self, signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[dict[str, str]]:
        """The messages; `searched` names passages by number, and those that are no longer among them are left out."""
        numbered = {passage.id: passage for passage in inputs["passages"]}
        *before, due = self.actions
        steps = [
            TranscriptStep(action, each.query, [numbered[number] for number in each.found if number in numbered])
            for action, each in zip(before, inputs["searched"], strict=True)
        ]
        return transcript(self.style, inputs["question"], steps, ACTION_TOKENS[due])

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The query or the answer, as the signature's first output.

        Raises:
            AdapterParseError: it is empty, or another control token is in it.
        """
        text = completion.partition(END)[0].strip()
        stray = next((token for token in CONTROL_TOKENS if token in text), None)
        if stray or not text:
            raise AdapterParseError("TranscriptAdapter", signature, completion, f"{stray or 'nothing'} within the text")
        return {next(iter(signature.output_fields)): text}
