"""Adaptive-Note: one note that grows as long as new passages make it better."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, Switch, Threshold
from knowgap.programs.passages import distinct
from knowgap.programs.replies.outputs import clean_lines, text_of
from knowgap.programs.trace.steps import Compared, Noted, Queried, Stopped, Withheld
from knowgap.retrieval.hybrid import RRF_CONSTANT, fuse
from knowgap.retrieval.passage import Hit, Passage, RetrieverLike
from knowgap.retrieval.sentences import split_sentences
from knowgap.signatures import (
    UNKNOWN,
    AnswerFromNote,
    AnswerFromPassages,
    CompareNotes,
    CompleteNote,
    InitNote,
    InitNoteAndAsk,
    ProposeQuestions,
    UpdateNote,
    UpdateNoteAndAsk,
)

QUESTIONS = 2
"""New questions per step (table A3)."""
_PAPERS_LOOP = {
    "invalid_updates": 1,
    "may_finish": False,
    "ask_together": False,
    "reread": True,
    "second_reading": False,
    "compare_additions": True,
}

_KNOWLEDGE = {
    "long": "Write only what the note says.",
    "news": "Where the note leaves a gap, use your own knowledge.",
}
"""Whether the answer may rest on the model's own knowledge as well, by style (table A4)."""


class AdaptiveNote(Program):
    """Write a note, ask what it lacks, rewrite it, keep the better one; answer from the best.

    Source: "Retriever-and-Memory: Towards Adaptive Note-Enhanced Retrieval-Augmented Generation" (Adaptive-Note),
    section "Methodology": equations 1 to 9; ablations of tables 2 to 4.

    1. Write a first note from the passages that the question finds.
    2. Propose two new questions, search for each, and fuse the lists by reciprocal rank.
    3. Update the best note with the new passages, and compare the two: the better one is kept.
    4. Repeat until `iterations` steps, `invalid_updates` notes that were no better, or `max_passages` passages read.
    5. Answer from the best note.

    Departures from the paper: docs/methods/adaptive_note.md.

    >>> import knowgap
    >>> knowgap.AdaptiveNote(iterations=2).iterations
    2
    """

    name = "adaptive_note"
    calls = "2 to 8"
    presets: ClassVar = {
        "multi_hop": {"top_k": 5, "style": "short", **_PAPERS_LOOP},
        "commonsense": {"top_k": 5, "style": "yes_no", **_PAPERS_LOOP},
        "long_form": {"top_k": 5, "style": "long", **_PAPERS_LOOP},
        "news": {"top_k": 2, "style": "news", **_PAPERS_LOOP},
    }

    top_k = Integer(5, "passages read per step (table 4)", low=1, high=20)
    iterations = Integer(
        3,
        "collection steps at most (CI, table 3); 0 answers from the first note",
        low=0,
        high=10,
        when={"collect": [True]},
    )
    invalid_updates = Integer(
        1,
        "notes that are not better, in total, after which to stop (IU, table 3)",
        low=1,
        high=10,
        when={"collect": [True], "review": [True]},
    )
    max_passages = Integer(
        15,
        "distinct passages read at most (RP, equation 8)",
        low=1,
        high=200,
        when={"collect": [True], "review": [True]},
    )
    collect = Switch(True, "gather in a note (IIC); off, it is plain retrieval-augmented generation (table 2)")
    review = Switch(
        True,
        "keep the better note (AMR); off, every new note is accepted (table 2)",
        when={"collect": [True]},
    )
    may_finish = Switch(
        True, "let the model say that the note lacks nothing, which ends the search", when={"collect": [True]}
    )
    ask_together = Switch(
        True,
        "write the questions in the reply that writes the note",
        when={"collect": [True], "may_finish": [True]},
    )
    reread = Switch(False, "show an update also the passages from which the note was written", when={"collect": [True]})
    second_reading = Switch(
        True,
        "show passages that did not better the note to the next update, and to the answer",
        when={"collect": [True]},
    )
    compare_additions = Switch(
        False,
        "compare a new note also where it only adds to the best one",
        when={"collect": [True], "review": [True]},
    )
    compare_threshold = Threshold(
        "compare",
        "better",
        "probability from which a new note is better; none asks for a plain yes or no",
        when={"collect": [True], "review": [True]},
    )

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.init = dspy.Predict(InitNote)
        self.init_and_ask = dspy.Predict(InitNoteAndAsk)
        self.update_and_ask = dspy.Predict(UpdateNoteAndAsk)
        self.propose = dspy.Predict(ProposeQuestions)
        self.complete = dspy.Predict(CompleteNote)
        self.update = dspy.Predict(UpdateNote)
        self.compare = dspy.Predict(CompareNotes)
        self.generate = dspy.Predict(AnswerFromNote)
        self.vanilla = dspy.Predict(AnswerFromPassages)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `note` (the best one) and `questions` (those asked on the way)."""
        hits = self.retrieve([question], self.top_k)[0]
        if not self.collect:  # plain retrieval-augmented generation (table 2, w/o IIC & AMR)
            passages = [hit.passage for hit in hits]
            output = self.ask(self.vanilla, question=question, passages=passages, style=self.wording)
            return self.conclude(text_of(output) or UNKNOWN, passages, note="", questions=[])
        read: set[str] = set()
        passages = self._within_cap(hits, read)
        together = self.may_finish and self.ask_together
        init = self.init_and_ask if together else self.init
        best_note, written = self._write_note(init, passages, question=question)
        sources, untaken = (passages, []) if best_note else ([], passages)
        asked, step, invalid = list[str](), 0, 0
        while not (reason := self._stop_reason(step, invalid, len(read))):
            step += 1
            self.begin_iteration(step)
            questions = self._new_questions(question, best_note, asked, written)
            if not questions:
                reason = "no new question"
                break
            asked += questions
            results = self.retrieve(questions, self.top_k)
            if not self.reread:
                again = distinct(hit.passage for hits in results for hit in hits if hit.passage in sources)
                if again:
                    self.record(Withheld(passages=[passage.id for passage in again]))
                results = [[hit for hit in hits if hit.passage not in again] for hits in results]
            passages = self._within_cap(fuse(results, self.top_k, constant=RRF_CONSTANT), read)
            if self.second_reading:
                passages = distinct([*passages, *untaken])
            inputs: dict[str, Any] = {"question": question, "best_note": best_note}
            if together:
                note, written = self._write_note(self.update_and_ask, passages, **inputs, asked=asked)
            else:
                note, _ = self._write_note(self.update, passages, **inputs)
            if self._better(question, best_note, note, passages):
                best_note, sources, untaken = note, distinct([*sources, *passages]), []
            else:
                untaken = passages
                invalid += self.review
        self.record(Stopped(reason=reason))
        if not self.second_reading:
            untaken = []
        text = "\n\n".join([best_note, *map(str, untaken)]).strip()
        style = " ".join(filter(None, (self.wording, _KNOWLEDGE.get(self.style))))
        output = self.ask(self.generate, inlined=untaken, question=question, note=text, style=style)
        sources = distinct([*sources, *untaken])
        return self.conclude(text_of(output) or UNKNOWN, sources, note=best_note, questions=asked)

    def _stop_reason(self, step: int, invalid: int, read: int) -> str:
        """The condition of equation 8 that holds; empty if none does."""
        if invalid >= self.invalid_updates:
            return "invalid updates"
        if step >= self.iterations:
            return "iterations"
        return "passages" if self.review and read >= self.max_passages else ""

    def _within_cap(self, hits: Sequence[Hit], read: set[str]) -> list[Passage]:
        """The passages within `max_passages`, which only `review` enforces; adds the ids of those read to `read`."""
        for hit in hits:
            if len(read) < self.max_passages or not self.review:
                read.add(hit.passage.id)
        return [hit.passage for hit in hits if hit.passage.id in read]

    def _write_note(
        self, predictor: dspy.Module, passages: list[Passage], **inputs: Any
    ) -> tuple[str, list[str] | None]:
        """The first note (equation 1) or an update of the best one (equation 4); empty without passages.

        Returns:
            The note, and the questions in the same reply; None if it has no such field or could not be read.
        """
        output = self.ask(predictor, passages=passages, **inputs, leave=1) if passages else None
        note = text_of(output, "note")
        if note:
            self.record(Noted(note=note, passages=[passage.id for passage in passages]), *passages)
        return note, output.get("questions") if output is not None else None

    def _new_questions(self, question: str, best_note: str, asked: list[str], written: list[str] | None) -> list[str]:
        """Two questions that were not asked before (equation 3); none if the note lacks nothing.

        They are those `written` in the reply that wrote the note; None asks the model for them.
        """
        if written is None:
            predictor = self.complete if self.may_finish else self.propose
            output = self.ask(predictor, question=question, note=best_note, asked=asked, leave=2)
            written = output.questions if output is not None else None
        questions, repeated = clean_lines(written, QUESTIONS, [question, *asked])
        self.record(Queried(queries=questions, repeated=repeated))
        return questions

    def _better(self, question: str, best_note: str, note: str, passages: list[Passage]) -> bool:
        """Whether the new note replaces the best one (equations 6 and 7)."""
        if not self.review:
            return bool(note)
        if not note:
            better, reason = False, "no new note" if passages else "no passages"
        elif not best_note:
            better, reason = True, "the first note"
        elif re.findall(r"\w+", note.casefold()) == re.findall(r"\w+", best_note.casefold()):
            better, reason = False, "the note is unchanged"
        elif not self.compare_additions and _adds_to(best_note, note):
            better, reason = True, "it adds to the note"
        else:
            output = self.ask(self.compare, question=question, best_note=best_note, new_note=note, leave=1)
            unasked = output is None and not self.may_go_on()
            better = unasked or (output is not None and bool(output.better))
            reason = "no call left" if unasked else "" if output is not None else "the comparison could not be read"
        self.record(Compared(better=better, reason=reason))
        return better


def _adds_to(best_note: str, note: str) -> bool:
    """Whether a note holds every sentence of another, word for word."""
    text = " ".join(note.split())
    return all(" ".join(sentence.split()) in text for sentence in split_sentences(best_note))
