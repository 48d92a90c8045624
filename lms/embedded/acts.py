"""The acts of the embedded reader, one function each; `REPERTOIRE` finds the one that serves a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
from knowgap.lms.embedded.repertoire import Repertoire
from knowgap.lms.embedded.solving import answer, walk

__all__ = ["REPERTOIRE"]

REPERTOIRE = Repertoire()
_NOTHING = "Nothing that was given says so."
_act = REPERTOIRE.act


def _because(reply: Answer) -> str:
    return " ".join(standalone(sentence) for sentence in reply.support) or _NOTHING


def _cited(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Turn sentences into statements with their passages; sentences that say the same become one statement."""
    merged: dict[str, dict[str, Any]] = {}
    for sentence in sentences:
        statement = standalone(sentence)
        entry = merged.setdefault(plain(statement), {"statement": statement, "sources": []})
        if sentence.source not in entry["sources"]:
            entry["sources"].append(sentence.source)
    return list(merged.values())


# Answering.


@_act("answer", "question", "reasoning confidence explanation")
def answer_question(inputs: Inputs) -> dict[str, Any]:
    """Give the best answer from all texts in the inputs; `unknown` where there are none."""
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


@_act("answer missing", "question", "answerable explanation confidence reasoning")
def missing(inputs: Inputs) -> dict[str, Any]:
    """Answer if everything is known, else say what is missing."""
    question = question_of(inputs)
    found = answer(question, sentences_of(inputs), guess=False)
    lacks = "" if found.text else lacking(question, found)
    why = f"{_because(found)} Not known: {lacks}." if lacks else _because(found)
    return {
        "answerable": bool(found.text),
        "answer": styled(found, inputs) if found.text else "",
        "missing": lacks,
        "confidence": found.certainty,
        "explanation": why,
        "reasoning": why,
    }


@_act("answerable answer", "question passages")
def answer_if_settled(inputs: Inputs) -> dict[str, Any]:
    """Give the best answer, and whether the passages settle the question."""
    found = answer(question_of(inputs), sentences_of(inputs), guess=False)
    return {**answer_question(inputs), "answerable": bool(found.text)}


@_act("statements answer", "question passages")
def cite(inputs: Inputs) -> dict[str, Any]:
    """Answer, and cite the statements that the answer rests on."""
    question, sentences = question_of(inputs), sentences_of({"passages": inputs["passages"]})
    support = answer(question, sentences).support or useful(question, (), sentences, 3)
    return {**answer_question(inputs), "statements": _cited(support)}


@_act("note answer", "question passages")
def reading_notes(inputs: Inputs) -> dict[str, Any]:
    """Write one line about each passage and one that concludes, and answer."""
    lines = [f"[{ident}] {why if good else 'beside the point'}" for ident, good, why in assess(inputs)]
    replies = answer_question(inputs)
    return {**replies, "note": "\n".join([*lines, replies["explanation"]])}


@_act("reasoning finished", "question passages known", "confidence answer")
def next_step(inputs: Inputs) -> dict[str, Any]:
    """Write the next sentence towards the answer that is not written yet; answer with the last one."""
    question = question_of(inputs)
    written = {plain(text) for text in strings(inputs["known"])}
    found = answer(question, sentences_of({"passages": inputs["passages"]}), guess=False)
    fresh = [text for text in map(standalone, found.support) if plain(text) not in written]
    if fresh:
        last = len(fresh) == 1 and bool(found.text)
        said = {"finished": last, "answer": found.text if last else "", "confidence": 0.9}
        return {"reasoning": fresh[0], **said}
    if found.text:
        said = {"finished": True, "answer": found.text, "confidence": found.certainty}
        return {"reasoning": f"So the answer is {found.text}.", **said}
    said = {"finished": False, "answer": "", "confidence": 0.2}
    return {"reasoning": f"Next needed: {lacking(question, found)}.", **said}


@_act("correct", "question prediction reference")
def judge(inputs: Inputs) -> dict[str, Any]:
    """Judge a prediction correct if it has the same date as the reference or all its words."""
    said, meant = str(inputs["prediction"]), str(inputs["reference"])
    dates = [value for _, _, value in find_dates(meant)]
    told = [value for _, _, value in find_dates(said)]
    same_date = any(a == b or (not b[2] and a[0] == b[0]) for a in told for b in dates)
    words = set(name_key(meant))
    correct = bool(words and words <= set(name_key(said))) or same_date or same_name(said, meant) > 0
    correct = correct or fold(said.strip(" .")) == fold(meant.strip(" ."))
    return {"correct": correct, "reasoning": "The same words or value." if correct else "Another value."}


# Collecting statements and notes.


@_act("statements", "question passages")
def extract(inputs: Inputs) -> dict[str, Any]:
    """Extract useful statements, each with the passages that say it."""
    queries = [parse(text) for text in strings(inputs.get("queries", []))]
    statements = _cited(useful(question_of(inputs), queries, sentences_of({"passages": inputs["passages"]})))
    return {"statements": statements, "reasoning": f"{len(statements)} sentences speak of what is asked."}


@_act("summary", "question passage", "relevant reasoning")
def summarise(inputs: Inputs) -> dict[str, Any]:
    """Summarise a passage by at most three useful sentences."""
    chosen = useful(question_of(inputs), (), sentences_of({"passage": inputs["passage"]}), 3)
    text = " ".join(s.text for s in chosen)
    return {"relevant": bool(chosen), "summary": text, "reasoning": f"{len(chosen)} sentences help."}


@_act("snippet", "question passage", "relevant reasoning")
def snippet(inputs: Inputs) -> dict[str, Any]:
    """Quote the most useful part of a passage: two sentences with the text between them, or one sentence."""
    passage = str(inputs["passage"])
    texts = [
        s.text for s in useful(question_of(inputs), (), sentences_of({"passage": passage}), 2) if s.text in passage
    ]
    text = texts[0] if texts else ""
    if len(texts) == 2:
        span = passage[passage.find(texts[0]) : passage.find(texts[1]) + len(texts[1])]
        text = span if len(span) <= 600 else text
    return {"relevant": bool(texts), "snippet": text, "reasoning": f"{len(texts)} sentences help."}


@_act("note", "question passages")
def write_note(inputs: Inputs) -> dict[str, Any]:
    """Add the useful sentences of the passages to the best note so far (if any), one per line."""
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


@_act("better", "question best_note new_note")
def compare_notes(inputs: Inputs) -> dict[str, Any]:
    """Call the new note better if it settles more steps of the question, or as many and adds a useful sentence."""
    question = question_of(inputs)
    best, new = (read_statement(str(inputs[name])) for name in ("best_note", "new_note"))
    before, after = _settled(question, best), _settled(question, new)
    held = {word for sentence in best for word in sentence.stems}
    added = [sentence.text for sentence in useful(question, (), new) if len(sentence.stems - held) >= 3]
    reason = f"It adds: {added[0]}" if added else "It adds nothing of use."
    if before != after:
        reason = f"It settles {after} steps instead of {before}."
    return {"better": after > before or (after == before and bool(added)), "reasoning": reason}


def _settled(question: Question, sentences: Sequence[Sentence]) -> int:
    return sum(step.found is not None for chain in question.chains for step in walk(chain, sentences).steps)


# Asking further.


@_act("queries", "question")
def queries(inputs: Inputs) -> dict[str, Any]:
    """Propose queries for what is missing: as many as are asked for at most, or three."""
    most = int(inputs.get("max_queries") or 3)
    return {"queries": next_queries(inputs, max(3, most))[:most], "reasoning": "These facts are missing."}


@_act("questions", "question note")
def questions(inputs: Inputs) -> dict[str, Any]:
    """Propose two questions that would complete a note."""
    return {"questions": next_queries(inputs, 2), "reasoning": "The note does not settle these."}


@_act("query", "question")
def refine(inputs: Inputs) -> dict[str, Any]:
    """Propose one new query for the next open step."""
    return {"query": next_queries(inputs, 1)[0], "reasoning": "This fact is needed next."}


@_act("questions", "question")
def decompose(inputs: Inputs) -> dict[str, Any]:
    """Split a question into simpler ones; a simple question stays as it is.

    Each is understandable alone, or says `#1` for the answer to the first where the prompt has it so.
    """
    question = question_of(inputs)
    numbered = inputs[""].says("questions", "#1") and sum(len(chain.relations) for chain in question.chains) <= 4
    steps: dict[str, None] = {}
    ends: dict[str, None] = {}
    for chain in question.chains:
        name, asked = chain.entity, ""
        for relation in chain.relations:
            asked = relation.question(name)
            steps[asked] = None
            name = f"#{list(steps).index(asked) + 1}" if numbered else f"the {relation.name} of {name}"
        ends[asked] = None
    if inputs[""].says("questions", "in order"):  # the steps alone, for a question that follows them
        return {"questions": list(steps)[:-1] if question.form == "value" else list(steps)}
    parts = list(steps if len(steps) <= 4 else ends) or [question.text]
    return {"questions": parts[:4] if len(parts) > 1 else [question.text], "reasoning": "One question for each step."}


@_act("needed query", "question sub_answers")
def follow_up(inputs: Inputs) -> dict[str, Any]:
    """Ask the next open step as a question, if there is one."""
    given, extra = given_answers(inputs)
    needed = not answer(question_of(inputs), extra, given, guess=False).text
    reason = "A fact is missing." if needed else "Everything is known."
    return {"needed": needed, "query": next_queries(inputs, 1)[0] if needed else "", "reasoning": reason}


@_act("next_thought next_tool_name next_tool_args", "question trajectory")
def next_turn(inputs: Inputs) -> dict[str, Any]:
    """Search for the next open step; finish when all are settled, after six searches, or without a tool."""
    found = answer(question_of(inputs), sentences_of(inputs), guess=False)
    tool = re.search(r"^ *\(1\) (\w+),.*?It takes arguments \{'(\w+)'", inputs[""].system, re.M | re.S)
    if found.text or tool is None or str(inputs["trajectory"]).count("Search: ") >= 6:
        return {"next_thought": f"{_because(found)} That is enough.", "next_tool_name": "finish", "next_tool_args": {}}
    query = next_queries(inputs, 1)[0]
    thought = f"{_because(found)} Next: {query}"
    return {"next_thought": thought, "next_tool_name": tool[1], "next_tool_args": {tool[2]: query}}


# Judging passages.


@_act("relevant", "question passage")
def relevance(inputs: Inputs) -> dict[str, Any]:
    """Call a passage relevant if it settles a step of the question or covers most of its words."""
    good, why = relevant(question_of(inputs), read_statement(str(inputs["passage"])))
    return {"relevant": good, "reasoning": why}


@_act("reasoning", "question passages", "")
def reason_relevance(inputs: Inputs) -> dict[str, Any]:
    """Write one line for each passage: its id, relevant or not, and why."""
    lines = [f"{ident}: {'relevant' if good else 'not relevant'}, {why}" for ident, good, why in assess(inputs)]
    return {"reasoning": "\n".join(lines)}


@_act("relevant_ids", "question passages")
def relevant_ids(inputs: Inputs) -> dict[str, Any]:
    """Give the ids that the assessment calls relevant; without an assessment, the relevant ones, best first."""
    ids = [ident for ident, _, _ in passages(inputs["passages"])]
    verdict = re.compile(r"(?<!\w)(\d+)\W+(not relevant|irrelevant|relevant)", re.I)  # lines may have been joined
    said = {int(ident): word.lower() for ident, word in verdict.findall(str(inputs.get("assessment", "")))}
    if said:
        chosen = [ident for ident in ids if said.get(ident) == "relevant"]
    else:
        support = answer(question_of(inputs), sentences_of({"passages": inputs["passages"]})).support
        order = {sentence.source: place for place, sentence in reversed(list(enumerate(support)))}
        chosen = [ident for ident, good, _ in assess(inputs) if good]
        chosen.sort(key=lambda ident: order.get(ident, len(order)))
    return {"relevant_ids": chosen, "reasoning": f"{len(chosen)} of {len(ids)} passages are relevant."}


@_act("relevant_ids answerable", "question passages")
def relevant_together(inputs: Inputs) -> dict[str, Any]:
    """Give the ids of the relevant passages, and whether they settle the question."""
    found = answer(question_of(inputs), sentences_of(inputs), guess=False)
    return {**relevant_ids(inputs), "answerable": bool(found.text)}


# Asked for its own knowledge.


@_act("knows", "question")
def self_knowledge(inputs: Inputs) -> dict[str, Any]:
    """Deny: the reader has no knowledge of its own."""
    return {"knows": False, "reasoning": "Nothing is known without passages.", "probability": 1.0}


@_act("passage", "query", "knows reasoning")
@_act("passage", "queries", "knows reasoning")
def prompted(inputs: Inputs) -> dict[str, Any]:
    """Write no passage: the reader has no knowledge of its own."""
    return {"knows": False, "passage": "", "reasoning": "Nothing is known without passages."}


@_act("passage", "question")
def internal(inputs: Inputs) -> dict[str, Any]:
    """Repeat the question: the reader has no knowledge of its own to search with."""
    return {"passage": str(inputs["question"]), "reasoning": "Nothing is known without passages."}
