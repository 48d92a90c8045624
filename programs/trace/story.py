"""The trace of a question as a story: what was known, missing, searched for and found in each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from knowgap.errors import shorten
from knowgap.programs.trace import steps as s
from knowgap.programs.trace.trace import Trace, printable
from knowgap.signatures.values import is_unknown

if TYPE_CHECKING:
    from rich.text import Text

_FOUND, _WHOLE_ROUNDS = 5, 3
"""The most passages named for a query, and the most rounds that the terminal shows; of more, the first and the last."""
_ENOUGH = "What it knew was enough for an answer."
_ENDINGS = {
    **dict.fromkeys(("answered", "finished", "no follow-up needed"), _ENOUGH),
    "relevant passages": "It had passages that fit the question.",
    "sub-answers": "It had the answers to the smaller questions.",
    "iterations": "It had searched as many rounds as it may.",
    "depth": "It had divided the question as often as it may.",
    "calls": "It had called the language model as often as it may.",
    "nothing new": "The searches found nothing new.",
    **dict.fromkeys(("no query", "no new query", "no new question"), "There was nothing more to look for."),
}


class Search(BaseModel):
    """A query: ids of at most five found passages that something was taken from (`useful`), or else of the first."""

    query: str
    found: list[str] = []
    useful: bool = False


class Fact(BaseModel):
    """A statement, a note, a thought or the answer to a sub-question, with the ids of the passages it comes from."""

    text: str
    passages: list[str] = []


class Round(BaseModel):
    """What happened between one search and the next."""

    number: int = Field(description="from 1")
    question: str = Field(default="", description="the sub-question; empty if the round is about the whole question")
    knew: int = Field(default=0, description="how many facts were known when the round began")
    missing: str = Field(default="", description="what was missing when it began; empty if the program did not say")
    searches: list[Search] = []
    learnt: list[Fact] = []
    still_missing: str = Field(default="", description="what was missing when it ended")

    def told(self, titles: dict[str, str]) -> str:
        """The round in one line: the queries, what they found, and what was still missing."""
        names = dict.fromkeys(name for fact in self.learnt for name in fact.passages)
        names = names or dict.fromkeys(name for search in self.searches for name in search.found)
        queries = "; ".join(search.query for search in self.searches)
        found = ", ".join(titles.get(name, name) for name in names) or "nothing"
        missing = f"; missing: {shorten(self.still_missing)}" if self.still_missing else ""
        return f"{self.number} looked for {shorten(queries, 200)} → found {found}{missing}"


class Story(BaseModel):
    """The rounds of a question, how they ended, and the titles of the passages that they name.

    Rounds without a search and without a fact are left out.

    >>> import dspy, knowgap
    >>> towns = [knowgap.Passage("orle", "Orle Bridge", "The Orle Bridge was designed by Ada Venn.")]
    >>> index = knowgap.build_index(towns, "bridges", engine="bm25")
    >>> with dspy.context(lm=knowgap.make_lm("extractive")):
    ...     prediction = knowgap.get_program("migres")(index)(question="Who designed the Orle Bridge?")
    >>> [round] = Story.of(prediction.trace).rounds
    >>> round.searches[0].found, round.learnt[0].text
    (['orle'], 'The Orle Bridge was designed by Ada Venn.')
    """

    rounds: list[Round] = []
    ending: str = Field(default="", description="why the search ended, in a sentence; empty if the program did not say")
    answered: bool = Field(default=False, description="whether the answer is known, and not found to be unsupported")
    titles: dict[str, str] = {}

    @classmethod
    def of(cls, trace: Trace) -> Story:
        """Tell the story of a trace."""
        all_rounds = [_tell(number, steps, trace) for number, steps in enumerate(_split(trace), start=1)]
        rounds = [told for told in all_rounds if told.searches or told.learnt]
        known, missing = 0, ""
        for told in rounds:
            told.knew, told.missing = known, told.missing or missing
            known, missing = known + len(told.learnt), told.still_missing
        named = {name for told in rounds for each in told.searches for name in each.found}
        named |= {name for told in rounds for each in told.learnt for name in each.passages}
        titles = {name: trace.passages[name]["title"] or name for name in sorted(named) if name in trace.passages}
        ending = _ENDINGS.get(trace.stopped, f"It stopped: {trace.stopped}." if trace.stopped else "")
        last = (trace.of(s.Answered) or [s.Answered(answer="")])[-1]
        answered = bool(last.answer) and not is_unknown(last.answer) and last.supported is not False
        return cls(rounds=rounds, ending=ending, answered=answered, titles=titles)

    def __rich__(self) -> Text:
        """A line for each round, of which at most four are shown, cut at the width of the terminal."""
        from rich.text import Text

        lines = [told.told(self.titles) for told in self.rounds]
        if len(lines) > _WHOLE_ROUNDS:
            lines = [lines[0], f"… {len(lines) - 2} more rounds", lines[-1]]
        return Text("\n", no_wrap=True, overflow="ellipsis").join(map(printable, lines))


def _split(trace: Trace) -> Iterator[list[s.Step]]:
    """The steps of each round: a round begins with a search, or with the sub-question or query that leads to it."""
    steps: list[s.Step] = []
    opened: list[s.Step] = []  # steps that belong to the round of the search that follows them
    searched = learnt = False
    for step in trace.steps:
        if isinstance(step, (s.Asked, s.Refined)):
            opened.append(step)
            continue
        if isinstance(step, s.Retrieved) and searched and (learnt or opened):
            yield steps
            steps, learnt = [], False
        learnt |= isinstance(step, (s.Extracted, s.Noted, s.Reasoned, s.Answered, s.Missing, s.Decomposed))
        searched |= isinstance(step, s.Retrieved)
        steps += [*opened, step]
        opened = []
    if steps:
        yield steps


def _tell(number: int, steps: list[s.Step], trace: Trace) -> Round:
    """Make one round; `Story.of` fills in what was known before it."""
    told, final, useful, stopped = Round(number=number), trace.of(s.Answered)[-1:], set[str](), False
    searched: list[tuple[str, list[str]]] = []
    for step in steps:
        match step:
            case s.Asked(question=question) if step.branch or question != trace.question:
                told.question = question
            case s.Retrieved():
                searched += zip(step.queries, step.hits, strict=True)
            case s.Extracted():
                pairs = zip(step.statements, step.sources, strict=True)
                told.learnt += [Fact(text=text, passages=sources) for text, sources in pairs]
            case s.Noted():
                told.learnt.append(Fact(text=step.note, passages=step.passages))
            case s.Reasoned() if not stopped:
                told.learnt.append(Fact(text=step.text))
            case s.Prompted():
                told.learnt.append(Fact(text=step.text, passages=[step.passage]))
            case s.Answered() if step.answer and not (final and step is final[0]):
                told.learnt.append(Fact(text=step.answer, passages=step.passages))
            case s.Missing():
                told.still_missing = step.missing
            case s.Decomposed():
                told.still_missing = told.still_missing or "; ".join(step.questions)
            case s.Judged() if step.passage and step.value:
                useful.add(step.passage)
            case s.Filtered():
                useful.update(step.kept)
            case _:
                stopped |= isinstance(step, s.Stopped)
    useful.update(name for fact in told.learnt for name in fact.passages)
    for query, found in searched:
        taken = [name for name in found if name in useful]
        told.searches.append(Search(query=query, found=taken[:_FOUND] or found[:3], useful=bool(taken)))
    return told
