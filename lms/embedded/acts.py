"""What the embedded reader can be asked, one function for each act."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.answers import Answer
from knowgap.lms.embedded.english.language import Sentence, find_dates, fold, name_key, same_name
from knowgap.lms.embedded.english.questions import Question, parse
from knowgap.lms.embedded.english.sentences import read_statement, standalone
from knowgap.lms.embedded.gathering import assess, lacking, next_queries, relevant, useful
from knowgap.lms.embedded.inputs import (
    Inputs,
    given_answers,
    passages,
    plain,
    question_of,
    sentences_of,
    strings,
    styled,
)
from knowgap.lms.embedded.prompts import Prompt
from knowgap.lms.embedded.solving import answer, walk

__all__ = ["perform"]

Act = Callable[[Inputs], dict[str, Any]]
_ACTS: list[tuple[frozenset[str], frozenset[str], frozenset[str], Act]] = []
_NOTHING = "Nothing that was given says so."


def act(outputs: str, needs: str, extra: str = "reasoning") -> Callable[[Act], Act]:
    """Register the act that gives `outputs` (and what of `extra` is asked) from the inputs that it `needs`."""

    def register(function: Act) -> Act:
        _ACTS.append((frozenset(outputs.split()), frozenset(needs.split()), frozenset(extra.split()), function))
        return function

    return register


def perform(prompt: Prompt) -> dict[str, Any]:
    """The values of the output fields, in the order asked for.

    Raises:
        SignatureNotServed: when no act gives these outputs from these inputs.
    """
    wanted, there = frozenset(prompt.outputs), frozenset(prompt.inputs)
    if there == {"text"} and (said := _copied(str(prompt.inputs["text"]), prompt)):
        return said
    serving = [entry for entry in _ACTS if entry[0] <= wanted <= entry[0] | entry[2] and entry[1] <= there]
    if not serving:
        raise SignatureNotServed(
            f"the extractive reader does not serve {', '.join(prompt.inputs)} -> {', '.join(prompt.outputs)}: "
            "use a language model for this act (--lm)"
        )
    # The act that fits best: the most outputs of its own, then the most inputs used.
    function = max(serving, key=lambda entry: (len(entry[0]), len(entry[1])))[3]
    values = function({**prompt.inputs, "": prompt})
    return {name: _typed(name, values, prompt) for name in prompt.outputs}


def _copied(text: str, prompt: Prompt) -> dict[str, Any] | None:
    """The second of DSPy's two steps: the fields as the first step wrote them, one `name: value` after another."""
    names = "|".join(prompt.outputs)
    said = dict(re.findall(rf"^({names}): (.*?)(?=^(?:{names}): |\Z)", text, re.M | re.S))
    if said.keys() != prompt.outputs.keys():
        return None
    return {
        name: _loaded(said[name].strip()) if kind != "str" else said[name].strip()
        for name, kind in prompt.outputs.items()
    }


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _typed(name: str, values: Mapping[str, Any], prompt: Prompt) -> Any:
    """A value in the type that its field asks for."""
    value, kind = values.get(name, ""), prompt.outputs[name]
    if kind == "NoulEvidence":
        sure = float(values.get("probability", 0.9))
        return {"noul": round(sure if value in (True, "yes") else 1 - sure, 3)}
    if name == "confidence" and kind == "int":
        return max(1, min(5, round(1 + 4 * float(value))))
    if kind == "bool" and isinstance(value, str):
        return value.lower() == "yes"
    if kind in ("int", "float") and isinstance(value, str):
        digits = re.search(r"-?\d+(?:\.\d+)?", value.replace(",", ""))
        return (int if kind == "int" else float)(float(digits[0]) if digits else 0)
    if kind.startswith("list[") and isinstance(value, str):
        return [value] if value else []
    return str(value) if kind == "str" else value


def _because(found: Answer) -> str:
    return " ".join(standalone(sentence) for sentence in found.support) or _NOTHING


def _cited(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Statements with the passages that say them, those that say the same as one."""
    merged: dict[str, dict[str, Any]] = {}
    for sentence in sentences:
        statement = standalone(sentence)
        entry = merged.setdefault(plain(statement), {"statement": statement, "sources": []})
        if sentence.source not in entry["sources"]:
            entry["sources"].append(sentence.source)
    return list(merged.values())


# Answering.


@act("answer", "question", "reasoning confidence explanation")
def answer_question(inputs: Inputs) -> dict[str, Any]:
    """The best answer from whatever there is to read; `unknown` where there is nothing."""
    question, (given, extra) = question_of(inputs), given_answers(inputs)
    sentences = [*sentences_of(inputs), *extra]
    concluded = re.search(r"\banswer is:? +(.+?)\.?\s*$", str(inputs.get("text", "")))
    if concluded:
        found = Answer(concluded[1], 0.5)
    elif sentences:
        found = answer(question, sentences, given)
    else:
        found = Answer((*question.options, "no" if question.kind == "yesno" else "unknown")[0], 0.0)
    why = _because(found)
    return {
        "answer": styled(found, inputs),
        "reasoning": f"{why} So the answer is {found.text}.",
        "explanation": why,
        "confidence": round(found.certainty, 3),
        "probability": max(0.5, found.certainty),
    }


@act("answer missing", "question", "explanation confidence reasoning")
def missing(inputs: Inputs) -> dict[str, Any]:
    """The answer if everything is known, else `unanswerable` and what is missing."""
    question = question_of(inputs)
    found = answer(question, sentences_of(inputs), guess=False)
    lacks = "" if found.text else lacking(question, found)
    why = f"{_because(found)} Not known: {lacks}." if lacks else _because(found)
    said = styled(found, inputs) if found.text else "unanswerable"
    return {"answer": said, "missing": lacks, "confidence": found.certainty, "explanation": why, "reasoning": why}


@act("statements answer", "question passages")
def cite(inputs: Inputs) -> dict[str, Any]:
    """The statements that an answer rests on, and the answer."""
    question, sentences = question_of(inputs), sentences_of({"passages": inputs["passages"]})
    support = answer(question, sentences).support or useful(question, (), sentences, 3)
    return {**answer_question(inputs), "statements": _cited(support)}


@act("note answer", "question passages")
def reading_notes(inputs: Inputs) -> dict[str, Any]:
    """One line for each passage, one on what follows, and the answer."""
    lines = [f"[{ident}] {why if good else 'beside the point'}" for ident, good, why in assess(inputs)]
    replies = answer_question(inputs)
    return {**replies, "note": "\n".join([*lines, replies["explanation"]])}


@act("reasoning answer", "question passages known", "confidence")
def next_step(inputs: Inputs) -> dict[str, Any]:
    """The next sentence towards the answer that was not written yet, and the answer once its last one is."""
    question = question_of(inputs)
    written = {plain(text) for text in strings(inputs["known"])}
    found = answer(question, sentences_of({"passages": inputs["passages"]}), guess=False)
    fresh = [text for text in map(standalone, found.support) if plain(text) not in written]
    if fresh:
        return {"reasoning": fresh[0], "answer": found.text if len(fresh) == 1 else "", "confidence": 0.9}
    if found.text:
        return {"reasoning": f"So the answer is {found.text}.", "answer": found.text, "confidence": found.certainty}
    return {"reasoning": f"Next needed: {lacking(question, found)}.", "answer": "", "confidence": 0.2}


@act("correct", "question prediction reference")
def judge(inputs: Inputs) -> dict[str, Any]:
    """Whether the prediction holds the reference: the same date, or all its words."""
    said, meant = str(inputs["prediction"]), str(inputs["reference"])
    dates = [value for _, _, value in find_dates(meant)]
    told = [value for _, _, value in find_dates(said)]
    same_date = any(a == b or (not b[2] and a[0] == b[0]) for a in told for b in dates)
    words = set(name_key(meant))
    correct = bool(words and words <= set(name_key(said))) or same_date or same_name(said, meant) > 0
    correct = correct or fold(said.strip(" .")) == fold(meant.strip(" ."))
    return {"correct": correct, "reasoning": "The same words or value." if correct else "Another value."}


# Collecting.


@act("statements", "question passages")
def extract(inputs: Inputs) -> dict[str, Any]:
    """Useful statements, each with the passages that say it."""
    queries = [parse(text) for text in strings(inputs.get("queries", []))]
    statements = _cited(useful(question_of(inputs), queries, sentences_of({"passages": inputs["passages"]})))
    return {"statements": statements, "reasoning": f"{len(statements)} sentences speak of what is asked."}


@act("summary", "question passage")
def summarise(inputs: Inputs) -> dict[str, Any]:
    """At most three useful sentences of a passage."""
    chosen = useful(question_of(inputs), (), sentences_of({"passage": inputs["passage"]}), 3)
    return {"summary": " ".join(s.text for s in chosen) or "irrelevant", "reasoning": f"{len(chosen)} sentences help."}


@act("snippet", "question passage")
def snippet(inputs: Inputs) -> dict[str, Any]:
    """The most useful stretch of a passage, word for word: two sentences with what stands between, or one."""
    passage = str(inputs["passage"])
    texts = [
        s.text for s in useful(question_of(inputs), (), sentences_of({"passage": passage}), 2) if s.text in passage
    ]
    text = texts[0] if texts else "irrelevant"
    if len(texts) == 2:
        span = passage[passage.find(texts[0]) : passage.find(texts[1]) + len(texts[1])]
        text = span if len(span) <= 600 else text
    return {"snippet": text, "reasoning": f"{len(texts)} sentences help."}


@act("note", "question passages")
def write_note(inputs: Inputs) -> dict[str, Any]:
    """The best note so far (if any) with the useful sentences of the passages, one a line."""
    question = question_of(inputs)
    lines = [line for line in str(inputs.get("best_note", "")).splitlines() if line.strip()]
    old = read_statement("\n".join(lines))
    fresh = sentences_of({"passages": inputs["passages"]})
    lacks = answer(question, old, guess=False).lacks
    queries = [parse(step.relation.question(step.name)) for step in lacks]
    seen = {plain(line) for line in lines}
    for sentence in useful(question, queries, [*fresh, *old]):
        text = standalone(sentence)
        if sentence not in old and plain(text) not in seen:
            seen.add(plain(text))
            lines.append(text)
    return {"note": "\n".join(lines), "reasoning": f"The note has {len(lines)} lines."}


@act("better", "question best_note new_note", "reason reasoning")
def compare_notes(inputs: Inputs) -> dict[str, Any]:
    """Better if it takes the question further, or as far and adds a sentence that speaks of what is asked."""
    question = question_of(inputs)
    best, new = (read_statement(str(inputs[name])) for name in ("best_note", "new_note"))
    before, after = _settled(question, best), _settled(question, new)
    held = {word for sentence in best for word in sentence.stems}
    added = [sentence.text for sentence in useful(question, (), new) if len(sentence.stems - held) >= 3]
    reason = f"It adds: {added[0]}" if added else "It adds nothing of use."
    if before != after:
        reason = f"It settles {after} steps instead of {before}."
    return {"better": after > before or (after == before and bool(added)), "reason": reason, "reasoning": reason}


def _settled(question: Question, sentences: Sequence[Sentence]) -> int:
    return sum(step.found is not None for chain in question.chains for step in walk(chain, sentences).steps)


# Asking.


@act("queries", "question")
def queries(inputs: Inputs) -> dict[str, Any]:
    """One to three queries for what is missing."""
    return {"queries": next_queries(inputs, 3), "reasoning": "These facts are missing."}


@act("questions", "question note")
def questions(inputs: Inputs) -> dict[str, Any]:
    """Two questions that would complete a note."""
    return {"questions": next_queries(inputs, 2), "reasoning": "The note does not settle these."}


@act("query", "question")
def refine(inputs: Inputs) -> dict[str, Any]:
    """One new query for the next open step."""
    return {"query": next_queries(inputs, 1)[0], "reasoning": "This fact is needed next."}


@act("questions", "question")
def decompose(inputs: Inputs) -> dict[str, Any]:
    """Simpler questions, each understandable alone; the question itself where it is simple."""
    question = question_of(inputs)
    steps: dict[str, None] = {}
    ends: dict[str, None] = {}
    for chain in question.chains:
        name, asked = chain.entity, ""
        for relation in chain.relations:
            asked = relation.question(name)
            steps[asked] = None
            name = f"the {relation.name} of {name}"
        ends[asked] = None
    if inputs[""].says("questions", "in order"):  # the steps alone, for a question that follows them
        return {"questions": list(steps)[:-1] if question.form == "value" else list(steps)}
    parts = list(steps if len(steps) <= 4 else ends) or [question.text]
    return {"questions": parts[:4] if len(parts) > 1 else [question.text], "reasoning": "One question for each step."}


@act("needed query", "question sub_answers")
def follow_up(inputs: Inputs) -> dict[str, Any]:
    """The next open step as a question, where there is one."""
    given, extra = given_answers(inputs)
    needed = not answer(question_of(inputs), extra, given, guess=False).text
    reason = "A fact is missing." if needed else "Everything is known."
    return {"needed": needed, "query": next_queries(inputs, 1)[0] if needed else "", "reasoning": reason}


@act("next_thought next_tool_name next_tool_args", "question trajectory")
def next_turn(inputs: Inputs) -> dict[str, Any]:
    """Search for the next open step, or finish: where it is settled, after six searches, or without a tool."""
    found = answer(question_of(inputs), sentences_of(inputs), guess=False)
    tool = re.search(r"^ *\(1\) (\w+),.*?It takes arguments \{'(\w+)'", inputs[""].system, re.M | re.S)
    if found.text or tool is None or str(inputs["trajectory"]).count("Search: ") >= 6:
        return {"next_thought": f"{_because(found)} That is enough.", "next_tool_name": "finish", "next_tool_args": {}}
    query = next_queries(inputs, 1)[0]
    thought = f"{_because(found)} Next: {query}"
    return {"next_thought": thought, "next_tool_name": tool[1], "next_tool_args": {tool[2]: query}}


# Judging passages.


@act("relevant", "question passage")
def relevance(inputs: Inputs) -> dict[str, Any]:
    """Whether a passage settles a step of the question or covers most of it."""
    good, why = relevant(question_of(inputs), read_statement(str(inputs["passage"])))
    return {"relevant": good, "reasoning": why}


@act("reasoning", "question passages", "")
def reason_relevance(inputs: Inputs) -> dict[str, Any]:
    """One line for each passage: its id, relevant or not, and why."""
    lines = [f"{ident}: {'relevant' if good else 'not relevant'}, {why}" for ident, good, why in assess(inputs)]
    return {"reasoning": "\n".join(lines)}


@act("relevant_ids", "question passages")
def relevant_ids(inputs: Inputs) -> dict[str, Any]:
    """Ids that the assessment calls relevant; without one, those that are, most helpful first."""
    ids = [ident for ident, _, _ in passages(inputs["passages"])]
    verdict = re.compile(r"^\W*(\d+)\W+(not relevant|irrelevant|relevant)", re.M | re.I)
    said = {int(ident): word.lower() for ident, word in verdict.findall(str(inputs.get("assessment", "")))}
    if said:
        chosen = [ident for ident in ids if said.get(ident) == "relevant"]
    else:
        support = answer(question_of(inputs), sentences_of({"passages": inputs["passages"]})).support
        order = {sentence.source: place for place, sentence in reversed(list(enumerate(support)))}
        chosen = [ident for ident, good, _ in assess(inputs) if good]
        chosen.sort(key=lambda ident: order.get(ident, len(order)))
    return {"relevant_ids": chosen, "reasoning": f"{len(chosen)} of {len(ids)} passages are relevant."}


# Knowing nothing.


@act("knows", "question")
def self_knowledge(inputs: Inputs) -> dict[str, Any]:
    """The reader knows nothing itself."""
    return {"knows": False, "reasoning": "Nothing is known without passages.", "probability": 1.0}


@act("passage", "query")
@act("passage", "queries")
def prompted(inputs: Inputs) -> dict[str, Any]:
    """The reader knows nothing itself."""
    return {"passage": "unknown", "reasoning": "Nothing is known without passages."}


@act("passage", "question")
def internal(inputs: Inputs) -> dict[str, Any]:
    """The question's own words: there is no memory to search with."""
    return {"passage": str(inputs["question"]), "reasoning": "Nothing is known without passages."}
