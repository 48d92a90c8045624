"""Signatures of KnowGap: read and plan the next search, or read once more and answer with a verdict."""

import dspy

from knowgap.signatures.answers import AnswerFromPassages
from knowgap.signatures.types import SourcePassage, optional


# Each round but the last.
class ReadAndPlan(dspy.Signature):
    """Decide whether the passages answer the question; if they do not, write search queries for what is missing.

    `steps`: one short line, of a few words, for each fact that the question needs, in order; the last is the one
    that is asked for. Name the fact, what fills it, and where that comes from: the numbers of the passages that
    state it, or from which it plainly follows; or COMMON KNOWLEDGE, such as the country of a capital; or REMEMBERED,
    if you are sure of it but no passage states it, such as a person's year of birth. If nothing fills it, write
    MISSING. For example, "designer of the bridge: Ada Venn [2]", then "what is asked of Ada Venn: MISSING". What
    follows from other steps, such as a comparison, has their numbers.

    `relevant_ids`: the passages that state a fact of any step, or name a thing that leads to one. Of several that say
    the same, name the first.

    If no step is REMEMBERED or MISSING, set `answerable` to True and answer. Otherwise set it to False, and write
    queries for those facts that can be looked up now, one for each, with the names that were found or remembered, and
    with the question's own words for what is asked; `answer` stays empty. If several things fit a description, ask
    about each. If each was searched and the passages give the whole answer for one of them only, answer for that one.
    If a query that you wrote did not bring its fact, try at most one other. If no way is left, write no query, and
    give as `answer` the best guess that the passages allow.
    """

    max_queries: int = dspy.InputField(desc="the most queries to write")
    style: str = dspy.InputField(desc="how the answer should be worded")
    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    searched: list[str] = dspy.InputField(desc="what was searched so far, first the question itself; do not repeat it")
    steps: list[str] = optional(
        "short lines: a fact, what fills it, and [numbers], COMMON KNOWLEDGE, REMEMBERED or MISSING", list
    )
    relevant_ids: list[int] = optional("ids of the passages that help", list)
    answerable: bool = optional("True if no fact is REMEMBERED or MISSING", bool)
    answer: str = optional("the answer in the asked style; or a last guess; may be empty")
    queries: list[str] = optional("new queries; empty if answered, or if no way is left", list)


# The last round, and the only one of a program that retrieves once.
class LastReading(AnswerFromPassages):
    """Answer the question with the help of the passages: nothing more will be searched.

    Some passages may not help. In `relevant_ids`, list the passages that the answer rests on. Set `supported` to True
    if they state every fact that the answer needs, apart from common knowledge. Set it to False if you have to guess,
    if they speak only of something similar, or if the question fits several things and they do not show which is
    meant. If the passages do not settle the question, give your best guess as `answer`, or leave it empty if you have
    none. In `explanation`, say in one or two sentences, in the language of the question, what the passages say.
    """

    answer: str = optional("the answer in the asked style, or a guess")
    relevant_ids: list[int] = optional("ids of the passages behind the answer", list)
    supported: bool = optional("True if the passages state all it needs", bool)
    explanation: str = optional("what the passages say about the question")
