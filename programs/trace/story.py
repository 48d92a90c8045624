"""The trace of a question as a story: what was known, missing, searched for and found in each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from knowgap.errors import shorten
from knowgap.programs.trace import steps as s
from knowgap.programs.trace.trace import Trace, describe_step, printable
from knowgap.signatures.values import is_unknown

if TYPE_CHECKING:
    from rich.text import Text

_FOUND = 5  # the most passages named for a query
_WHOLE_ROUNDS = 3  # the most rounds shown in full in the terminal; of more, only the first and the last are
_ENOUGH = "What it knew was enough for an answer."
_NOTHING_MORE = "There was nothing more to look for."
_ENDINGS = {
    "answered": _ENOUGH,
    "enough": _ENOUGH,
    "finished": _ENOUGH,
    "no follow-up needed": _ENOUGH,
    "relevant passages": "It had passages that fit the question.",
    "sub-answers": "It had the answers to the smaller questions.",
    "iterations": "It had searched as many rounds as it may.",
    "depth": "It had divided the question as often as it may.",
    "calls": "It had called the language model as often as it may.",
    "nothing new": "The searches found nothing new.",
    "no query": _NOTHING_MORE,
    "no new query": _NOTHING_MORE,
    "no new question": _NOTHING_MORE,
}


class Search(BaseModel):
    """A query and the passages that it found.

    Attributes:
        query: what was looked for.
        found: ids of at most five passages that something was taken from, or else of the first three that the index
            returned.
        useful: whether something was taken from them.
        hits: how many passages the index returned.
    """

    query: str
    found: list[str] = []
    useful: bool = False
    hits: int = 0


class Fact(BaseModel):
    """A statement, a note, a thought or the answer to a sub-question, with the ids of the passages it comes from."""

    text: str
    passages: list[str] = []


class Ranked(BaseModel):
    """A passage's score from the reranker, and whether it was kept."""

    passage: str
    score: float
    kept: bool


class Round(BaseModel):
    """What happened between one search and the next.

    Attributes:
        number: from 1.
        question: the sub-question; empty if the round is about the whole question.
        knew: how many facts were known when the round began.
        missing: what was missing for an answer when it began; empty if the program did not say.
        searches: what was looked for.
        learnt: what was found out.
        still_missing: what was missing for an answer when it ended.
        ranked: the reranker's list, best first.
        remarks: what was rejected or went wrong, a line each.
    """

    number: int
    question: str = ""
    knew: int = 0
    missing: str = ""
    searches: list[Search] = []
    learnt: list[Fact] = []
    still_missing: str = ""
    ranked: list[Ranked] = []
    remarks: list[str] = []


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
        named = {name for told in rounds for search in told.searches for name in search.found}
        named |= {name for told in rounds for fact in told.learnt for name in fact.passages}
        named |= {ranked.passage for told in rounds for ranked in told.ranked}
        titles = {name: trace.passages[name]["title"] or name for name in sorted(named) if name in trace.passages}
        ending = _ENDINGS.get(trace.stopped, f"It stopped: {trace.stopped}." if trace.stopped else "")
        answers = trace.of(s.Answered)
        known = bool(answers) and bool(answers[-1].answer) and not is_unknown(answers[-1].answer)
        answered = known and answers[-1].supported is not False
        return cls(rounds=rounds, ending=ending, answered=answered, titles=titles)

    def __rich__(self) -> Text:
        """At most nine lines, each cut at the width of the terminal."""
        from rich.text import Text

        text = Text("\n", no_wrap=True, overflow="ellipsis")
        return text.join(Text.assemble((label, "dim"), printable(line)) for label, line in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        first, last, between = self.rounds[:1], self.rounds[-1:], self.rounds[1:-1]
        whole = self.rounds if len(self.rounds) <= _WHOLE_ROUNDS else [*first, *last]
        for told in whole:
            if told in last and len(whole) < len(self.rounds):
                queries = sum(len(each.searches) for each in between)
                learnt = sum(len(each.learnt) for each in between)
                said = f"{_counted(queries, 'search', 'searches')}, {_counted(learnt, 'statement', 'statements')}"
                yield f"{'…':>2}             ", f"{len(between)} more rounds: {said}"
            yield f"{told.number:>2} looked for  ", shorten("; ".join(search.query for search in told.searches), 400)
            yield "   found       ", self._found(told)
            if told.still_missing:
                yield "   missing     ", shorten(told.still_missing, 400)

    def _found(self, told: Round) -> str:
        """How much was learnt in a round, and from which passages."""
        names = dict.fromkeys(name for fact in told.learnt for name in fact.passages)
        names = names or dict.fromkeys(name for search in told.searches for name in search.found)
        titles = ", ".join(self.titles.get(name, name) for name in names) or "nothing"
        return f"{_counted(len(told.learnt), 'statement', 'statements')} in {titles}" if told.learnt else titles


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _split(trace: Trace) -> Iterator[list[s.Step]]:
    """The steps of each round: a round begins with a search, or with the sub-question or query that leads to it."""
    steps: list[s.Step] = []
    opened: list[s.Step] = []  # steps that belong to the round of the search that follows them
    searched = learnt = False
    for step in trace.steps:
        match step:
            case s.Asked() | s.Refined():
                opened.append(step)
                continue
            case s.Retrieved() if searched and (learnt or opened):
                yield steps
                steps, learnt = [], False
            case s.Extracted() | s.Noted() | s.Reasoned() | s.Answered() | s.Missing() | s.Decomposed():
                learnt = True
            case _:
                pass
        searched |= isinstance(step, s.Retrieved)
        steps += [*opened, step]
        opened = []
    if steps:
        yield steps


def _tell(number: int, steps: list[s.Step], trace: Trace) -> Round:
    """Make one round; `Story.of` fills in what was known before it."""
    told, final, useful, stopped = Round(number=number), trace.of(s.Answered)[-1:], set[str](), False
    hits: list[list[str]] = []
    for step in steps:
        match step:
            case s.Asked(question=question) if step.branch or question != trace.question:
                told.question = question
            case s.Retrieved():
                hits += step.hits
                told.searches += [
                    Search(query=query, hits=len(found)) for query, found in zip(step.queries, step.hits, strict=True)
                ]
            case s.Reranked():
                for kept, scores in ((True, step.kept), (False, step.dropped)):
                    told.ranked += [Ranked(passage=name, score=score, kept=kept) for name, score in scores.items()]
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
            case s.Rejected() | s.Malformed() | s.Shortened():
                told.remarks += describe_step(trace, step)
            case s.Stopped():
                stopped = True
            case _:
                pass
    useful.update(name for fact in told.learnt for name in fact.passages)
    for search, found in zip(told.searches, hits, strict=True):
        taken = [name for name in found if name in useful]
        search.found, search.useful = taken[:_FOUND] or found[:3], bool(taken)
    return told
