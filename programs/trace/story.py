"""The trace of a question as a story: what was looked for, found and learnt in each round, and what was missing."""

from __future__ import annotations

from collections.abc import Iterable
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
_ENDINGS = {
    **dict.fromkeys(("answered", "finished", "no follow-up needed"), "What it knew was enough for an answer."),
    "iterations": "It had searched as many rounds as it may.",
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
    """An iteration of the method: its searches, what was learnt from them, and what was missing in the end."""

    searches: list[Search] = []
    learnt: list[Fact] = []
    missing: str = ""

    def told(self, number: int, titles: dict[str, str]) -> str:
        """The round in one line: the queries, what they found, and what was still missing."""
        names = dict.fromkeys(name for fact in self.learnt for name in fact.passages)
        names = names or dict.fromkeys(name for search in self.searches for name in search.found)
        queries = "; ".join(search.query for search in self.searches)
        found = ", ".join(titles.get(name, name) for name in names) or "nothing"
        missing = f"; missing: {shorten(self.missing)}" if self.missing else ""
        return f"{number} looked for {shorten(queries, 200)} → found {found}{missing}"


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
        last = (trace.of(s.Answered) or [s.Answered(answer="")])[-1]
        groups, iteration = [list[s.Step]()], None  # a round begins with the first search of an iteration
        for step in trace.steps:
            if isinstance(step, s.Retrieved):
                if iteration not in (None, step.iteration):
                    groups.append([])
                iteration = step.iteration
            if step is not last:
                groups[-1].append(step)
        rounds = [told for told in map(_tell, groups) if told.searches or told.learnt]
        named = {name for told in rounds for search in told.searches for name in search.found}
        named |= {name for told in rounds for fact in told.learnt for name in fact.passages}
        ending = _ENDINGS.get(trace.stopped, f"It stopped: {trace.stopped}." if trace.stopped else "")
        answered = bool(last.answer) and not is_unknown(last.answer) and last.supported is not False
        titles = {name: trace.title(name) for name in sorted(named)}
        return cls(rounds=rounds, ending=ending, answered=answered, titles=titles)

    def __rich__(self) -> Text:
        """A line for each round, of which at most four are shown, cut at the width of the terminal."""
        from rich.text import Text

        lines = [told.told(number, self.titles) for number, told in enumerate(self.rounds, start=1)]
        if len(lines) > _WHOLE_ROUNDS:
            lines = [lines[0], f"… {len(lines) - 2} more rounds", lines[-1]]
        return Text("\n", no_wrap=True, overflow="ellipsis").join(map(printable, lines))


def _tell(steps: Iterable[s.Step]) -> Round:
    told, useful, searched = Round(), set[str](), list[tuple[str, list[str]]]()
    for step in steps:
        match step:
            case s.Retrieved():
                searched += zip(step.queries, step.hits, strict=True)
            case s.Extracted():
                pairs = zip(step.statements, step.sources, strict=True)
                told.learnt += [Fact(text=text, passages=sources) for text, sources in pairs]
            case s.Reasoned() if not step.what.startswith("answer"):  # which may be a guess
                told.learnt.append(Fact(text=step.text, passages=step.passages))
            case s.Prompted():
                told.learnt.append(Fact(text=step.text, passages=[step.passage]))
            case s.Answered() if step.answer:  # to a sub-question
                told.learnt.append(Fact(text=step.answer, passages=step.passages))
            case s.Missing():
                told.missing = step.missing
            case s.Decomposed():
                told.missing = told.missing or "; ".join(step.questions)
            case s.Judged() if step.passage and step.value:
                useful.add(step.passage)
            case s.Filtered():
                useful.update(step.kept)
            case _:
                pass
    useful.update(name for fact in told.learnt for name in fact.passages)
    for query, found in searched:
        taken = [name for name in found if name in useful]
        told.searches.append(Search(query=query, found=taken[:_FOUND] or found[:3], useful=bool(taken)))
    return told
