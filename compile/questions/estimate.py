"""What writing questions would cost, from the prompts of some passages, without asking anything."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import dspy

from knowgap.compiling.evaluation.estimate import Estimate
from knowgap.compiling.questions.author import prompts
from knowgap.compiling.questions.material import Corpus, Material
from knowgap.compiling.questions.records import KINDS
from knowgap.compiling.questions.writing import passages_of, shares
from knowgap.lms.metering import Prices
from knowgap.lms.prompts import count_tokens
from knowgap.programs.passages import number_passages
from knowgap.retrieval.index.engines import as_retriever
from knowgap.retrieval.passage import RetrieverLike

__all__ = ["estimate_questions"]

_MEASURED = 4  # passages or pairs of each kind
_WRITTEN, _ANSWERED = 150, 40  # words and marks of a reply with a question, and of one with an answer


def estimate_questions(
    retriever: RetrieverLike,
    *,
    n: int = 60,
    kinds: Sequence[str] = tuple(KINDS),
    lm: dspy.BaseLM | None = None,
    prices: Prices | None = None,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Estimate what `write_questions` costs, by kind, if the checks keep every draft.

    The prompts of a few passages are laid out and their words and marks are counted. If the checks drop drafts, it is
    more: up to about three times as much.

    Args:
        retriever: as for `write_questions`.
        n: as for `write_questions`.
        kinds: as for `write_questions`.
        lm: whose prices count.
        prices: US dollars per million prompt and completion tokens; DSPy's table where absent.
        seed: as for `write_questions`.
    """
    index, wanted = as_retriever(retriever), shares(n, kinds)
    corpus, estimates = Corpus(index, passages_of(index), seed), {}
    for kind, number in wanted.items():
        measured = [[*_calls(each)] for each in itertools.islice(corpus.materials(kind), _MEASURED)]
        many = max(1, len(measured))
        calls, prompt = sum(map(len, measured)) / many, sum(map(sum, measured)) / many
        completion = _WRITTEN + _ANSWERED * max(0.0, calls - 1)
        totals = number * calls, number * prompt, number * completion
        estimates[kind] = Estimate.of_calls(number, *totals, lm=lm, prices=prices, measured=len(measured))
    return estimates


def _calls(material: Material) -> Iterator[int]:
    """The length of each prompt for one draft that passes every check; a sentence stands in for the question."""
    stand_in = " ".join(material.passages[0].text.split()[:20])
    for signature, inputs in prompts(material, stand_in):
        messages = dspy.ChatAdapter().format(signature, [], number_passages(inputs)[0])
        yield sum(count_tokens(str(message["content"])) for message in messages)
