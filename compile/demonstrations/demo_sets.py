"""The demonstration sets that trials of a study choose from: bootstrapped once, saved with the study."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.provenance import state_of
from knowgap.lms.metering import Usage
from knowgap.programs.base import Program
from knowgap.retrieval.words import content_words, split_sentences, words

P = TypeVar("P", bound=Program)
Demos = list[dict[str, Any]]

NUM_SETS = 6
"""The most demonstration sets for each predictor, the empty one included."""
MAX_DEMOS = 4
"""The most demonstrations in a set that is drawn."""
EXCERPT_WORDS = 60
"""The number of words beyond which a demonstration shows an excerpt of a passage: a long one makes every prompt
expensive, and misleads small models."""


class DemoSets(BaseModel, extra="forbid"):
    """Demonstration sets by predictor.

    Set 0 is empty. Set 1 holds the program's own demonstrations if it has any. The others are drawn from those that
    were bootstrapped.

    Attributes:
        sets: sets of demonstrations (JSON values by field) by predictor name.
        own: number of the set that the program came with, by predictor.
        spent: what bootstrapping cost.
    """

    sets: dict[str, list[Demos]] = {}
    own: dict[str, int] = {}
    spent: Usage = Usage()

    @classmethod
    def draw(cls, program: Program, bootstrapped: Program | None, *, seed: int = 0) -> DemoSets:
        """Draw sets for a program from the demonstrations of its bootstrapped copy, if there is one.

        Each predictor gets at most `NUM_SETS` sets, the empty one included; drawn sets have at most `MAX_DEMOS`
        demonstrations. Of the longer passages in these, they show excerpts.
        """
        rng, drawn = random.Random(seed), cls()
        available = {} if bootstrapped is None else _demos(bootstrapped)
        outputs = {name: cast("Any", p).signature.output_fields for name, p in program.named_predictors()}
        for name, demos in _demos(program).items():
            options: list[Demos] = [[], demos] if demos else [[]]
            found = [with_excerpts(demo, outputs[name]) for demo in available.get(name, [])]
            chosen = found[:MAX_DEMOS]  # the first ones, then random subsets in their order
            for _ in range(4 * NUM_SETS if found else 0):  # few demonstrations may not give enough different sets
                if chosen not in options and len(options) < NUM_SETS:
                    options.append(chosen)
                size = rng.randint(1, min(MAX_DEMOS, len(found)))
                chosen = [found[place] for place in sorted(rng.sample(range(len(found)), size))]
            if len(options) > 1:
                drawn.sets[name], drawn.own[name] = options, int(bool(demos))
        return drawn

    @property
    def bootstrapped(self) -> dict[str, int]:
        """The first bootstrapped set by predictor; the program's own if there is none."""
        return {name: min(own + 1, len(self.sets[name]) - 1) for name, own in self.own.items()}

    def apply(self, program: P, chosen: Mapping[str, int]) -> P:
        """Give a program the chosen set of every predictor, and return it; set 0 is empty whatever sets there are."""
        predictors = dict(program.named_predictors())
        for name, number in chosen.items():
            demos = self.sets[name][number] if number else []
            cast("Any", predictors[name]).demos = [dspy.Example(**demo) for demo in demos]
        return program


def _demos(program: Program) -> dict[str, Demos]:
    """Demonstrations by predictor, as the JSON values that DSPy would save."""
    return {name: part["demos"] for name, part in state_of(program).items() if "demos" in part}


def with_excerpts(demo: dict[str, Any], outputs: Collection[str]) -> dict[str, Any]:
    """Shorten the passages that a demonstration shows to the sentences that its outputs rest on; see `excerpt`.

    `demo` has the JSON values of a demonstration by field, passages with a title and a text; `outputs` are the names of
    its output fields.
    """
    answer = {*content_words(" ".join(str(demo[name]) for name in outputs if name in demo))}
    question = {*content_words(str(demo.get("question", "")))}

    def shorten(item: Any) -> Any:
        is_passage = isinstance(item, dict) and "title" in item and isinstance(item.get("text"), str)
        return {**item, "text": excerpt(item["text"], answer, question)} if is_passage else item

    return {
        name: [shorten(item) for item in value] if isinstance(value, list) and name not in outputs else value
        for name, value in demo.items()
    }


def excerpt(text: str, answer: set[str], question: set[str]) -> str:
    """An excerpt of a passage: its first sentence, and those that share most words with an answer or its question.

    The sentences keep their order. The first sentence and the best of the others are always kept, and more as long as
    they are `EXCERPT_WORDS` words together. A shorter text stays as it is. Answer and question are given by their
    content words; those of the answer count first.
    """
    if len(words(text)) <= EXCERPT_WORDS:
        return text
    first, *others = [(place, sentence, words(sentence)) for place, sentence in enumerate(split_sentences(text))]
    others.sort(key=lambda each: (len(answer.intersection(each[2])), len(question.intersection(each[2]))), reverse=True)
    kept = [first, *others[:1]]
    for each in others[1:]:
        if sum(len(found) for _, _, found in [*kept, each]) <= EXCERPT_WORDS:
            kept.append(each)
    return " ".join(sentence for _, sentence, _ in sorted(kept))
