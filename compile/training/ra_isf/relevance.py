"""Examples of the relevance model: questions with retrieved passages, and whether these are relevant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import dspy

from knowgap.compiling.teacher.asking import ask_teacher, teacher_identity
from knowgap.compiling.training.ra_isf.labelling import Item, Labeller
from knowgap.errors import UsageError
from knowgap.programs.ra_isf import RAISF
from knowgap.retrieval.passage import Passage, Retriever

__all__ = ["gold_passages", "judges_relevance", "retrieve_items"]

_QUESTIONS_AT_ONCE = 64


def retrieve_items(
    examples: Sequence[dspy.Example], retriever: Retriever, k: int = 5, corpus: Iterable[Passage] = ()
) -> list[Item]:
    """Each question with the `k` best passages (appendix A.2), and with its gold passages that are not among them.

    Args:
        examples: the questions.
        retriever: as RA-ISF will search with.
        k: passages of each question; 5 in the paper's runs.
        corpus: where gold passages are looked up; none of them is added without it.
    """
    passages = {passage.id: passage for passage in corpus}
    items: list[Item] = []
    for start in range(0, len(examples), _QUESTIONS_AT_ONCE):
        asked = examples[start : start + _QUESTIONS_AT_ONCE]
        found = retriever.search([example.question for example in asked], k)
        for example, hits in zip(asked, found, strict=True):
            retrieved = {hit.passage.id: hit.passage for hit in hits}
            gold = {id: passages[id] for id in example.get("gold_ids") or () if id in passages}
            items += [Item(example, passage) for passage in (gold | retrieved).values()]
    return items


def judges_relevance(lm: dspy.BaseLM, program: RAISF | None = None) -> Labeller:
    """Ask a language model about each passage by itself (appendix A.2).

    Args:
        lm: the teacher.
        program: the demonstrations of its `relevance` go into the prompts.
    """
    asked = program or RAISF()

    def label(item: Item) -> tuple[bool | None, int]:
        inputs = {"question": item.example.question, "passage": str(item.passage)}
        output, calls = ask_teacher(asked.relevance, lm, **inputs)
        return (None if output is None else bool(output.relevant)), calls

    return Labeller(
        "relevant", f"what {lm.model} finds relevant", teacher_identity(lm, asked.relevance), label, calls=1
    )


def gold_passages() -> Labeller:
    """Take a data set's gold passages for relevant, and all others for irrelevant: no call, unlike the paper."""

    def label(item: Item) -> tuple[bool | None, int]:
        gold = item.example.get("gold_ids")
        if not gold:
            return None, 0
        if item.passage is None:
            raise UsageError(f"no passage is given for {item.example.question!r}")
        return item.passage.id in gold, 0

    return Labeller("relevant", "gold passages of the data set", "gold passages", label)
