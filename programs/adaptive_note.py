"""Adaptive-Note: one note that grows as long as new passages make it better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap import signatures
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, Switch, Threshold
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import clean_lines, text_of
from knowgap.programs.trace.steps import Compared, Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike, fuse

_COLLECTING, _REVIEWING = {"collect": [True]}, {"collect": [True], "review": [True]}


class AdaptiveNote(Program):
    """Write a note, ask for what it lacks, update it, keep the better one; answer from the best.

    Source: "Retriever-and-Memory: Towards Adaptive Note-Enhanced Retrieval-Augmented Generation" (Adaptive-Note),
    section "Methodology": equations 1 to 9; prompts of tables A3 and A4; ablations of tables 2 to 4.

    1. Write a first note from the passages that the question finds; it is the best note.
    2. Propose two new questions from the best note, and retrieve passages for them.
    3. Update the best note with these passages, and compare the two: the better one is kept.
    4. Repeat from 2, until `iterations` steps, `invalid_updates` notes that were no better, or `max_passages` passages.
    5. Answer from the best note.

    Where the paper is silent: docs/methods/adaptive_note.md.

    >>> import knowgap
    >>> knowgap.AdaptiveNote(iterations=2).iterations
    2
    """

    name = "adaptive_note"
    calls = "5 to 11"
    adds: ClassVar = {"note": "", "questions": []}
    presets: ClassVar = {
        "multi_hop": {},
        "commonsense": {"style": "yes_no"},
        "long_form": {"style": "long"},
        "news": {"top_k": 2, "style": "news"},
    }

    top_k = Integer(5, "passages read per step (table 4)", low=1, high=20)
    iterations = Integer(3, "collection steps at most (CI, table 3)", low=1, high=10, when=_COLLECTING)
    invalid_updates = Integer(1, "notes no better, in all, that stop it (IU, table 3)", low=1, high=10, when=_REVIEWING)
    max_passages = Integer(15, "distinct passages that stop it (RP, equation 8)", low=1, high=200, when=_REVIEWING)
    collect = Switch(True, "gather in a note (IIC); off, it is plain retrieval-augmented generation (table 2)")
    review = Switch(True, "keep the better note (AMR); off, every new note is accepted (table 2)", when=_COLLECTING)
    compare_threshold = Threshold("compare", "better", "probability from which a note is better", when=_REVIEWING)

    def __init__(self, retriever: RetrieverLike | None = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.init = dspy.Predict(signatures.InitNote)
        self.propose = dspy.Predict(signatures.ProposeQuestions)
        self.update = dspy.Predict(signatures.UpdateNote)
        self.compare = dspy.Predict(signatures.CompareNotes)
        self.generate = dspy.Predict(signatures.AnswerFromNote)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `note` (the best one) and `questions` (those asked on the way)."""
        passages = self.retrieve_passages(question, self.top_k)
        if not self.collect:  # the passages themselves take the place of the note (table 2, w/o IIC & AMR)
            return self.conclude(self._generate(question, "\n".join(map(str, passages)), passages), passages)
        best_note = self._write(self.init, question, passages)  # M_opt, equations 1 and 2
        sources, seen, asked = passages if best_note else [], {p.id for p in passages}, list[str]()
        step = invalid = 0
        while not (reason := self._stop(step, invalid, len(seen))):  # equation 8
            step += 1
            self.begin_iteration(step)
            output = self.ask(self.propose, question=question, note=best_note, asked=asked)  # q_t, equation 3
            questions, repeated = clean_lines(getattr(output, "questions", None), 2, asked)
            self.record(Queried(queries=questions, repeated=repeated))
            if not questions:
                reason = "no new question"
                break
            asked += questions
            found = fuse(self.retrieve(questions, self.top_k), self.top_k)
            passages = [hit.passage for hit in found]
            seen |= {passage.id for passage in passages}
            note = self._write(self.update, question, passages, best_note=best_note)  # N_t, equations 4 and 5
            better = bool(note)
            if note and self.review:  # equations 6 and 7
                output = self.ask(self.compare, question=question, best_note=best_note, new_note=note)
                better = output is not None and bool(output.better)
                self.record(Compared(better=better, passages=[passage.id for passage in passages]))
            if better:
                best_note, sources = note, distinct([*sources, *passages])
            else:
                invalid += 1
        self.record(Stopped(reason=reason))
        return self.conclude(self._generate(question, best_note), sources, note=best_note, questions=asked)

    def _stop(self, step: int, invalid: int, seen: int) -> str:
        """Which of CI, IU and RP is reached (equation 8); empty if none. Without review, only the steps are counted."""
        if step >= self.iterations:
            return "iterations"
        if self.review and invalid >= self.invalid_updates:
            return "invalid updates"
        if self.review and seen >= self.max_passages:
            return "passages"
        return ""

    def _write(self, predictor: dspy.Module, question: str, passages: list[Passage], **inputs: Any) -> str:
        """A note from passages; empty if it could not be read."""
        note = text_of(self.ask(predictor, question=question, passages=passages, **inputs), "note")
        if note:
            self.record(Reasoned(what="note", text=note))
        return note

    def _generate(self, question: str, note: str, inlined: Sequence[Passage] = ()) -> str:
        """The answer from a note (equation 9), worded as table A4 asks for."""
        style = signatures.NOTE_STYLES.get(self.style, self.wording)
        output = self.ask(self.generate, last=True, inlined=inlined, note=note, question=question, style=style)
        return text_of(output) or signatures.UNKNOWN
