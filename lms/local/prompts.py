"""Make the tokens of a prompt: by the chat template of the model where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dspy.lm15 import Request
from dspy.utils.exceptions import ContextWindowExceededError

from knowgap.errors import LanguageModelError
from knowgap.lms.local.loading import LocalModel

__all__ = ["chat_ids", "check_window", "request_turns", "text_ids"]

Turn = Mapping[str, str]


def request_turns(request: Request) -> list[Turn]:
    """The system prompt and the messages of a request, as `{"role": …, "content": …}`."""
    system = request.system or ""
    if not isinstance(system, str):
        system = "".join(getattr(part, "text", "") for part in system)
    turns: list[Turn] = [{"role": "system", "content": system}] if system else []
    return [*turns, *({"role": message.role, "content": message.text or ""} for message in request.messages)]


def text_ids(local: LocalModel, text: str) -> list[int]:
    """The tokens of a text as it stands, with the special tokens that the tokenizer adds to a whole input."""
    return list(local.tokenizer(text, verbose=False).input_ids)


def chat_ids(local: LocalModel, turns: Sequence[Turn]) -> list[int]:
    """The tokens of a conversation, up to where the reply begins.

    A chat template that refuses the system role, or leaves it out, gets the system prompt at the beginning of the first
    user turn. Without a chat template, the turns are joined with blank lines.

    Raises:
        LanguageModelError: the chat template cannot render the conversation.
    """
    if not local.tokenizer.chat_template:
        return text_ids(local, "\n\n".join(turn["content"] for turn in turns) + "\n\n")
    text = _render(local, turns)
    return list(local.tokenizer(text, add_special_tokens=False, verbose=False).input_ids)


def _render(local: LocalModel, turns: Sequence[Turn]) -> str:
    from jinja2.exceptions import TemplateError

    def render(turns: Sequence[Turn]) -> str:
        return local.tokenizer.apply_chat_template(
            [dict(turn) for turn in turns], add_generation_prompt=True, tokenize=False
        )

    first, *rest = turns
    has_system = first["role"] == "system" and bool(rest)
    try:
        text = render(turns)
        if not has_system or first["content"].strip() in text:
            return text
    except TemplateError as error:
        if not has_system:
            raise _unusable(local, error) from error
    folded = {"role": rest[0]["role"], "content": f"{first['content']}\n\n{rest[0]['content']}"}
    try:
        return render([folded, *rest[1:]])
    except TemplateError as error:
        raise _unusable(local, error) from error


def _unusable(local: LocalModel, error: Exception) -> LanguageModelError:
    return LanguageModelError(f"the chat template of {local.name!r} cannot render these messages: {error}")


def check_window(local: LocalModel, prompt: int, wanted: int) -> int:
    """How many tokens the model may write after a prompt: as many as wanted, or as its window leaves.

    Args:
        local: the model.
        prompt: tokens of the prompt.
        wanted: the most tokens that are asked for.

    Raises:
        ContextWindowExceededError: the window leaves none.
    """
    window = local.window
    if window is None:
        return wanted
    left = window - (0 if local.is_seq2seq else prompt)
    if prompt > window or left < 1:
        raise ContextWindowExceededError(
            message=f"the prompt has {prompt} tokens, and the model {local.name!r} reads at most {window}: "
            "let the program read fewer or shorter passages (top_k), or take a model with a longer window",
            model=local.name,
        )
    return min(wanted, left)
