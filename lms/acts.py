"""What the embedded reader can be asked, one function for each act."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowgap.errors import SignatureNotServed
from knowgap.lms.language import STOP_WORDS, Sentence, find_dates, fold, name_key, same_name, sentences_of, stem, stems
from knowgap.lms.prompts import Prompt, blobs
from knowgap.lms.questions import Question, parse
from knowgap.lms.reading import TITLE_NOUNS, matches, read_passage, read_statement
from knowgap.lms.solving import Answer, Step, answer, overlap, rank_sentences, walk, weights

__all__ = ["perform"]

Inputs = Mapping[str, Any]
_UNANSWERABLE, _UNKNOWN, _IRRELEVANT = "unanswerable", "unknown", "irrelevant"
_ACTS: list[tuple[frozenset[str], frozenset[str], frozenset[str], Callable[[Inputs], dict[str, Any]]]] = []


def act(
    outputs: str, needs: str, extra: str = "reasoning"
) -> Callable[[Callable[[Inputs], dict[str, Any]]], Callable[[Inputs], dict[str, Any]]]:
    """Register the act that gives `outputs` (and what of `extra` is asked) from the inputs that it `needs`."""

    def register(function: Callable[[Inputs], dict[str, Any]]) -> Callable[[Inputs], dict[str, Any]]:
        _ACTS.append((frozenset(outputs.split()), frozenset(needs.split()), frozenset(extra.split()), function))
        return function

    return register


def perform(prompt: Prompt) -> dict[str, Any]:
    """The values of the output fields, in the order asked for.

    Raises:
        SignatureNotServed: when no act gives these outputs from these inputs.
    """
    wanted, there = frozenset(prompt.outputs), frozenset(prompt.inputs)
    if there == {"text"}:  # the second of DSPy's two steps: the first one's own lines
        name = "|".join(prompt.outputs)
        said = dict(re.findall(rf"^({name}): (.*?)(?=^(?:{name}): |\Z)", str(prompt.inputs["text"]), re.M | re.S))
        if wanted <= said.keys():
            return {name: _said(said[name].strip(), kind) for name, kind in prompt.outputs.items()}
    for outputs, needs, extra, function in _ACTS:
        if outputs <= wanted <= outputs | extra and needs <= there:
            values = function({**prompt.inputs, "": prompt})
            return {name: _typed(name, values, prompt) for name in prompt.outputs}
    raise SignatureNotServed(
        f"the extractive reader does not serve {', '.join(prompt.inputs)} -> {', '.join(prompt.outputs)}: "
        "use a language model for this act (--lm)"
    )


def _said(text: str, kind: str) -> Any:
    if kind == "str":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _typed(name: str, values: Mapping[str, Any], prompt: Prompt) -> Any:
    value, kind = values.get(name, ""), prompt.outputs[name]
    if name in prompt.noul:
        sure = float(values.get("probability", 0.9))
        return {"noul": round(sure if value in (True, "yes") else 1 - sure, 3)}
    if name == "confidence" and kind == "int":
        return max(1, min(5, round(1 + 4 * float(value))))
    if kind == "bool" and isinstance(value, str):
        return value.lower() == "yes"
    if kind in ("int", "float") and isinstance(value, str):
        digits = re.search(r"-?\d+(?:\.\d+)?", value.replace(",", ""))
        return (int(float(digits[0])) if kind == "int" else float(digits[0])) if digits else 0
    if kind.startswith("list[") and isinstance(value, str):
        return [value] if value else []
    return value if not (kind == "str" and not isinstance(value, str)) else str(value)


# Reading the inputs.


def _passages(value: Any) -> list[tuple[int, str, str]]:
    """(id, title, text) of passages, however they were given."""
    items = value if isinstance(value, list) else blobs(value) if isinstance(value, str) else [value]
    found = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, Mapping):
            text = str(item.get("text", item.get("long_text", item.get("content", ""))))
            ident = item.get("id", number)
            found.append((ident if isinstance(ident, int) else number, str(item.get("title", "")), text))
        else:
            found.append((number, *_titled(str(item))))
    return found


def _titled(line: str) -> tuple[str, str]:
    """The title and the text of `Title | text` or `Title: text`."""
    for mark in (" | ", ": "):
        title, found, text = line.partition(mark)
        if found and len(title) <= 80 and not re.search(r"[.!?] ", title):
            return title, text
    return "", line


def _strings(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(item) for item in value]
    return blobs(value) if isinstance(value, str) else []


def _sentences(inputs: Inputs) -> list[Sentence]:
    """Everything there is to read, as sentences."""
    found: list[Sentence] = []
    for name in ("passages", "context", "contexts", "documents"):
        for ident, title, text in _passages(inputs.get(name, [])):
            found.extend(read_passage(title, text, ident))
    for name in ("known", "facts"):
        for number, text in enumerate(_strings(inputs.get(name, [])), start=1):
            found.extend(read_statement(text, number))
    for name in ("note", "best_note", "text", "passage", "reasoning"):
        if inputs.get(name):
            found.extend(read_statement(str(inputs[name]), len(found)))
    listed = re.findall(r"^\[(\d+)\] (.+)$", str(inputs.get("trajectory", "")), re.M)
    for number, (_, line) in enumerate(listed, start=len(found)):
        found.extend(read_passage(*_titled(line), number))
    return found


def _given(inputs: Inputs) -> tuple[dict[Any, str], list[Sentence]]:
    """Answers to sub-questions: by the chains that these ask, and as sentences."""
    given: dict[Any, str] = {}
    sentences: list[Sentence] = []
    items = inputs.get("sub_answers")
    for item in items if isinstance(items, list) else []:
        said, reply = parse(str(item.get("question", ""))), str(item.get("answer", "")).strip()
        if reply and fold(reply).strip(" .") not in (_UNKNOWN, _UNANSWERABLE):
            for chain in said.chains if said.form == "value" else ():
                given[(name_key(chain.entity), tuple(r.name for r in chain.relations))] = reply
            sentences.extend(read_statement(f"{said.text.rstrip('?')}: {reply}", len(sentences)))
    return given, sentences


def _question(inputs: Inputs) -> Question:
    return parse(str(inputs.get("question") or inputs.get("query") or ""))


def _styled(text: str, found: Answer, inputs: Inputs) -> str:
    """The answer in the asked style."""
    style = fold(str(inputs.get("style", "")))
    if "letter" in style:
        return _letter(text, str(inputs.get("question", "")))
    if style.startswith("yes or no"):
        return text if text in ("yes", "no") else "yes" if found.certainty >= 0.5 else "no"
    if "sentence" in style and "no sentence" not in style and found.support:
        return " ".join(dict.fromkeys(_standalone(s) for s in found.support))
    return text


def _letter(text: str, question: str) -> str:
    options = re.findall(r"(?:^|[\s(])([A-Z])[).:] *(.+?)(?=\s+\(?[A-Z][).:] |$)", question, re.S)
    best = max(options, key=lambda o: len(set(stems(o[1])) & set(stems(text))), default=("A", ""))
    return best[0]


_SUBJECT = re.compile(
    rf"(He|She|It|They)\b(?!['’])|(His|Her|Its|Their)\b|(The (?:{'|'.join(sorted(TITLE_NOUNS))}))\b(?! of\b)"
)


def _standalone(sentence: Sentence) -> str:
    """A sentence that can be understood alone: a leading pronoun gives way to the title, or the title stands before."""
    title = re.sub(r"\s*\([^()]*\)$", "", sentence.title)
    text = sentence.text
    if not title:
        return text
    words = {t.folded for t in sentence.tokens}
    if all(word in words for word in name_key(title)):
        return text
    lead = _SUBJECT.match(text)
    if lead:
        rest = text[lead.end() :]
        owner = title + ("'" if title.endswith("s") else "'s")
        return (owner if lead[2] else title) + rest
    return f"{title}: {text}"


# What is useful.


def _useful(
    question: Question, others: Sequence[Question], sentences: Sequence[Sentence], limit: int = 8
) -> list[Sentence]:
    """The sentences that settle a step of the question or of a query, and those that speak of what is asked."""
    chosen: dict[Sentence, float] = {}
    names: list[str] = []
    frontier: list[str] = []
    cues: set[str] = set()
    for target in (question, *others):
        for chain in target.chains:
            path = walk(chain, sentences)
            names.append(chain.entity)
            for step in path.steps:
                names.append(step.name)
                cues |= step.relation.cues
                if step.found is None:
                    frontier.append(step.name)
                if step.found is not None:
                    chosen[step.found.sentence] = max(chosen.get(step.found.sentence, 0), 2.0)
            for relation in chain.relations:
                cues |= relation.cues
        names.extend(target.options)
    counts = weights(sentences)
    for target in (question, *others):
        wanted = frozenset(stems(target.text))
        for sentence in () if target.chains else sentences:
            share = overlap(wanted, sentence, counts, len(sentences))
            if share >= 0.2:
                chosen[sentence] = max(chosen.get(sentence, 0), share)
    for sentence in sentences:
        on = max((matches(sentence, name) for name in names), default=0.0)
        cued = any(t.stem in cues for t in sentence.tokens)
        if on and (cued or (on >= 0.7 and sentence.order == 0)):
            chosen[sentence] = max(chosen.get(sentence, 0), 0.5 + 0.4 * on * cued + 0.2 * (sentence.order == 0))
        elif any(same_name(sentence.title, name) == 1 for name in frontier):
            chosen[sentence] = max(chosen.get(sentence, 0), 0.3)
    best = sorted(chosen, key=lambda s: (-chosen[s], s.source, s.order))[:limit]
    return sorted(best, key=lambda s: (s.source, s.order))


def _queries(inputs: Inputs, most: int) -> list[str]:
    """Single questions for the steps that nothing known settles, none asked before."""
    question = _question(inputs)
    sentences = _sentences(inputs)
    given, extra = _given(inputs)
    sentences.extend(extra)
    asked = {_plain(text) for name in ("asked", "searched") for text in _strings(inputs.get(name, []))}
    asked |= {_plain(q) for q in re.findall(r"^Search: (.+)$", str(inputs.get("trajectory", "")), re.M)}
    asked |= {
        _plain(str(item.get("question", ""))) for item in inputs.get("sub_answers") or [] if isinstance(item, dict)
    }
    asked.add(_plain(question.text))
    steps = list(answer(question, sentences, given, guess=False).lacks)
    proposals = [step.relation.question(step.name) for step in steps]
    for step in steps:
        proposals.append(f"{step.name} {step.relation.name}")
        proposals.append(f"What is known about {step.name}?")
    if not steps:
        proposals.extend(step.relation.question(step.name) for step in _last_steps(question, sentences, given))
    if not question.chains:
        proposals.extend(_open_queries(question, sentences))
    proposals.extend(f"Who or what is {name}?" for name in [*question.options, *_names(question.text)])
    fresh: dict[str, str] = {}
    for text in proposals:
        if _plain(text) not in asked:
            fresh.setdefault(_plain(text), text)
    if not fresh:
        fresh = {"": f"{question.text.rstrip(' ?')}: further facts"}
    primary = max(1, len(steps)) if question.chains else most
    return list(fresh.values())[: min(most, primary) if most > 2 else most]


def _last_steps(question: Question, sentences: Sequence[Sentence], given: dict[Any, str]) -> list[Step]:
    """The settled steps of a question, last ones first."""
    paths = [walk(chain, sentences, given).steps for chain in question.chains]
    return [step for path in paths for step in reversed(path)]


def _open_queries(question: Question, sentences: Sequence[Sentence]) -> list[str]:
    """For a question that no rule understood: what was found that it does not name, with what of it is uncovered."""
    ranked = [s for share, s in rank_sentences(question.text, sentences)[:4] if share > 0.1]
    covered = {word for s in ranked for word in s.stems | frozenset(stems(s.title))}
    asked = set(stems(question.text))
    rest = [
        w
        for w in re.findall(r"[^\W_]+(?:[-'’][^\W_]+)*", question.text)
        if stem(w) not in covered and fold(w) not in STOP_WORDS
    ]
    found = []
    for sentence in ranked:
        for name in [sentence.title, *(s.text for s in sentence.spans if s.kind == "name")]:
            if name and not set(stems(name)) <= asked:
                found.append(f"{name} {' '.join(rest[:8])}".strip())
    return list(dict.fromkeys(found))[:3]


def _names(text: str) -> list[str]:
    return list(
        dict.fromkeys(s.text for sentence in read_passage("", text) for s in sentence.spans if s.kind == "name")
    )


def _plain(text: str) -> str:
    return " ".join(stems(text)) or fold(text)


def _explain(found: Answer) -> str:
    if found.support:
        return " ".join(_standalone(s) for s in found.support)
    return "Nothing that was given says so."


def _lacks(question: Question, found: Answer) -> str:
    return "; ".join(dict.fromkeys(step.missing for step in found.lacks)) or f"facts that answer: {question.text}"


# The acts.


@act("statements", "question passages")
def extract(inputs: Inputs) -> dict[str, Any]:
    """Useful statements, each with the passages that say it."""
    sentences = _sentences({"passages": inputs["passages"]})
    others = [parse(text) for text in _strings(inputs.get("queries", []))]
    statements = _cited(_useful(_question(inputs), others, sentences))
    return {"statements": statements, "reasoning": f"{len(statements)} sentences speak of what is asked."}


def _cited(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Statements with the passages that say them."""
    merged: dict[str, dict[str, Any]] = {}
    for sentence in sentences:
        statement = _standalone(sentence)
        entry = merged.setdefault(_plain(statement), {"statement": statement, "sources": []})
        if sentence.source not in entry["sources"]:
            entry["sources"].append(sentence.source)
    return list(merged.values())


@act("statements answer", "question passages")
def cite(inputs: Inputs) -> dict[str, Any]:
    """The statements that an answer rests on, and the answer."""
    question, sentences = _question(inputs), _sentences({"passages": inputs["passages"]})
    found = answer(question, sentences)
    return {**answer_question(inputs), "statements": _cited(found.support or _useful(question, (), sentences, 3))}


@act("answer missing", "question", "explanation confidence reasoning")
def missing(inputs: Inputs) -> dict[str, Any]:
    """The answer if everything is known, else `unanswerable` and what is missing."""
    question = _question(inputs)
    found = answer(question, _sentences(inputs), guess=False)
    if not found.text:
        lacks = _lacks(question, found)
        why = f"{_explain(found)} Not known: {lacks}."
        return {"answer": _UNANSWERABLE, "missing": lacks, "confidence": 0.0, "explanation": why, "reasoning": why}
    why = _explain(found)
    text = _styled(found.text, found, inputs)
    return {"answer": text, "missing": "", "confidence": found.certainty, "explanation": why, "reasoning": why}


@act("queries", "question")
def queries(inputs: Inputs) -> dict[str, Any]:
    """One to three queries for what is missing."""
    return {"queries": _queries(inputs, 3), "reasoning": f"Missing: {inputs.get('missing', 'the facts asked for')}"}


@act("questions", "question note")
def questions(inputs: Inputs) -> dict[str, Any]:
    """Two questions that would complete a note."""
    return {"questions": _queries(inputs, 2), "reasoning": "The note does not settle these."}


@act("questions", "question")
def decompose(inputs: Inputs) -> dict[str, Any]:
    """Simpler questions, each understandable alone; the question itself where it is simple."""
    question = _question(inputs)
    parts: list[str] = []
    for chain in question.chains:
        name = chain.entity
        for relation in chain.relations:
            parts.append(relation.question(name))
            name = f"the {relation.name} of {name}"
    parts = list(dict.fromkeys(parts))
    if inputs[""].says("questions", "in order"):  # the steps alone, for a question that follows them
        return {"questions": parts[:-1] if question.form == "value" else parts}
    if len(parts) > 4:  # the ends of the chains, which hold the rest
        parts = [
            chain.relations[-1].question(_described(chain.entity, chain.relations[:-1])) for chain in question.chains
        ]
    if len(parts) < 2 or (len(question.chains) == 1 and len(question.chains[0].relations) < 2):
        parts = [question.text]
    return {"questions": parts[:4], "reasoning": "One question for each step."}


def _described(name: str, relations: Sequence[Any]) -> str:
    for relation in relations:
        name = f"the {relation.name} of {name}"
    return name


@act("query", "question")
def refine(inputs: Inputs) -> dict[str, Any]:
    """One new query for the next open step."""
    return {"query": _queries(inputs, 1)[0], "reasoning": "This is the next fact that is needed."}


@act("needed query", "question sub_answers")
def follow_up(inputs: Inputs) -> dict[str, Any]:
    """The next open step as a question, where there is one."""
    given, extra = _given(inputs)
    question = _question(inputs)
    needed = not answer(question, extra, given, guess=False).text
    query = _queries(inputs, 1)[0] if needed else ""
    return {"needed": needed, "query": query, "reasoning": "A fact is missing." if needed else "Everything is known."}


@act("next_thought next_tool_name next_tool_args", "question trajectory")
def next_turn(inputs: Inputs) -> dict[str, Any]:
    """Search for the next open step, or finish."""
    found = answer(_question(inputs), _sentences(inputs), guess=False)
    tool = re.search(r"^\(1\) (\w+),.*?It takes arguments \{'(\w+)'", inputs[""].system, re.M | re.S)
    if found.text or tool is None or str(inputs["trajectory"]).count("Search: ") >= 6:
        return {"next_thought": f"{_explain(found)} That is enough.", "next_tool_name": "finish", "next_tool_args": {}}
    query = _queries(inputs, 1)[0]
    thought = f"{_explain(found)} Next: {query}"
    return {"next_thought": thought, "next_tool_name": tool[1], "next_tool_args": {tool[2]: query}}


@act("reasoning answer", "question passages known", "confidence")
def next_step(inputs: Inputs) -> dict[str, Any]:
    """The next sentence towards the answer that was not written yet, and the answer once its last one is."""
    question = _question(inputs)
    written = {_plain(text) for text in _strings(inputs.get("known", []))}
    found = answer(question, _sentences({"passages": inputs["passages"]}), guess=False)
    steps = [_standalone(s) for s in found.support]
    fresh = [text for text in steps if _plain(text) not in written]
    if fresh:
        done = found.text if len(fresh) == 1 else ""
        return {"reasoning": fresh[0], "answer": done, "confidence": 0.9}
    if found.text:
        return {"reasoning": f"So the answer is {found.text}.", "answer": found.text, "confidence": found.certainty}
    needs = f"Next needed: {_lacks(question, found)}."
    return {"reasoning": needs, "answer": "", "confidence": 0.2}


@act("note answer", "question passages")
def reading_notes(inputs: Inputs) -> dict[str, Any]:
    """One line for each passage, one on what follows, and the answer."""
    lines = [f"[{ident}] {why if good else 'beside the point'}" for ident, good, why in _assess(inputs)]
    replies = answer_question(inputs)
    return {**replies, "note": "\n".join([*lines, replies["explanation"]])}


@act("summary", "question passage")
def summarise(inputs: Inputs) -> dict[str, Any]:
    """At most three useful sentences of a passage."""
    chosen = _useful(_question(inputs), (), _sentences({"passage": inputs["passage"]}), 3)
    text = " ".join(s.text for s in chosen) or _IRRELEVANT
    return {"summary": text, "reasoning": f"{len(chosen)} sentences help."}


@act("snippet", "question passage")
def snippet(inputs: Inputs) -> dict[str, Any]:
    """The most useful stretch of a passage, word for word."""
    passage = str(inputs["passage"])
    chosen = _useful(_question(inputs), (), _sentences({"passage": passage}), 2)
    texts = [s.text for s in chosen]
    starts = [passage.find(text) for text in texts if passage.find(text) >= 0]
    ends = [passage.find(text) + len(text) for text in texts if passage.find(text) >= 0]
    text = (
        passage[min(starts) : max(ends)]
        if starts and max(ends) - min(starts) <= 600
        else texts[0]
        if texts
        else _IRRELEVANT
    )
    return {"snippet": text, "reasoning": f"{len(chosen)} sentences help."}


@act("note", "question passages")
def write_note(inputs: Inputs) -> dict[str, Any]:
    """The best note so far (if any) with the useful sentences of the passages, one a line."""
    lines = [line for line in str(inputs.get("best_note", "")).splitlines() if line.strip()]
    seen = {_plain(line) for line in lines}
    old = [s for line in lines for s in read_statement(line)]
    fresh = _sentences({"passages": inputs["passages"]})
    frontier = [parse(step.relation.question(step.name)) for step in answer(_question(inputs), old, guess=False).lacks]
    for sentence in _useful(_question(inputs), frontier, [*fresh, *old]):
        if sentence in old:
            continue
        text = _standalone(sentence)
        if _plain(text) not in seen:
            seen.add(_plain(text))
            lines.append(text)
    return {"note": "\n".join(lines), "reasoning": f"The note has {len(lines)} lines."}


@act("better", "question best_note new_note", "reason reasoning")
def compare_notes(inputs: Inputs) -> dict[str, Any]:
    """Better if it takes the question further, or adds a sentence that speaks of what is asked."""
    question = _question(inputs)
    best, new = (read_statement(str(inputs[name])) for name in ("best_note", "new_note"))
    before, after = _settled(question, best), _settled(question, new)
    held = {word for s in best for word in s.stems}
    added = [s for s in _useful(question, (), new) if len(s.stems - held) >= 3]
    lost = after < before
    better = after > before or (not lost and bool(added))
    reason = (
        f"It settles {after} steps instead of {before}." if after != before
        else f"It adds: {added[0].text}" if added else "It adds nothing of use."
    )  # fmt: skip
    return {"better": better, "reason": reason, "reasoning": reason, "probability": 0.9}


def _settled(question: Question, sentences: Sequence[Sentence]) -> int:
    return sum(step.found is not None for chain in question.chains for step in walk(chain, sentences).steps)


@act("knows", "question")
def self_knowledge(inputs: Inputs) -> dict[str, Any]:
    """The reader knows nothing itself."""
    return {"knows": False, "reasoning": "Nothing is known without passages.", "probability": 1.0}


@act("relevant", "question passage")
def relevance(inputs: Inputs) -> dict[str, Any]:
    """Whether a passage settles a step of the question or covers most of it."""
    relevant, reason = _relevant(_question(inputs), read_statement(str(inputs["passage"])))
    return {"relevant": relevant, "reasoning": reason}


def _relevant(question: Question, sentences: Sequence[Sentence]) -> tuple[bool, str]:
    for chain in question.chains:
        for start, relation in enumerate(chain.relations):
            name = chain.entity if start == 0 else ""
            step = walk(type(chain)(name, (relation,)), sentences).steps[0] if name else None
            if step is not None and step.found is not None:
                return True, f"it gives {step.missing}: {step.found.value}"
    wanted, counts = frozenset(stems(question.text)), weights(sentences)
    words = {w for s in sentences for w in s.stems | frozenset(stems(s.title))} & wanted
    best = max(sentences, key=lambda s: overlap(wanted, s, counts, len(sentences)), default=None)
    names = [c.entity for c in question.chains] or [*question.options, *_names(question.text)]
    named = any(matches(s, name) for name in names for s in sentences)
    enough = len(words) >= (0.5 if question.chains else 0.3) * max(1, len(wanted))
    if best is not None and named and enough:
        return True, f"it says: {best.text}"
    return False, "it says nothing of what is asked"


@act("relevant_ids", "question passages")
def relevant_ids(inputs: Inputs) -> dict[str, Any]:
    """Ids that the assessment calls relevant; without a usable assessment, those that are."""
    ids = [ident for ident, _, _ in _passages(inputs["passages"])]
    said = dict(
        re.findall(r"^\W*(\d+)\W+(not relevant|irrelevant|relevant)", str(inputs.get("assessment", "")), re.M | re.I)
    )
    if said:
        chosen = [ident for ident in ids if said.get(str(ident), "").lower() == "relevant"]
    else:
        found = answer(_question(inputs), _sentences({"passages": inputs["passages"]}))
        first = [s.source for s in found.support]
        chosen = [ident for ident, verdict, _ in _assess(inputs) if verdict]
        chosen.sort(key=lambda ident: first.index(ident) if ident in first else len(first))
    return {"relevant_ids": chosen, "reasoning": f"{len(chosen)} of {len(ids)} passages are relevant."}


def _assess(inputs: Inputs) -> list[tuple[int, bool, str]]:
    """Each passage: relevant if it serves the question alone or goes on from what the others say."""
    question = _question(inputs)
    passages = _passages(inputs["passages"])
    sentences = [s for ident, title, text in passages for s in read_passage(title, text, ident)]
    used = {s.source for s in answer(question, sentences).support}
    verdicts = []
    for ident, title, text in passages:
        relevant, reason = _relevant(question, read_passage(title, text, ident))
        if ident in used and not relevant:
            relevant, reason = True, "it goes on from another passage"
        verdicts.append((ident, relevant, reason))
    return verdicts


@act("reasoning", "question passages", "")
def reason_relevance(inputs: Inputs) -> dict[str, Any]:
    """One line for each passage: its id, relevant or not, and why."""
    lines = [f"{ident}: {'relevant' if good else 'not relevant'}, {why}" for ident, good, why in _assess(inputs)]
    return {"reasoning": "\n".join(lines)}


@act("correct", "question prediction reference")
def judge(inputs: Inputs) -> dict[str, Any]:
    """Whether the prediction holds the reference: the same date or number, or all its words."""
    said, meant = str(inputs["prediction"]), str(inputs["reference"])
    correct = set(name_key(meant)) <= set(name_key(said)) and bool(name_key(meant))
    if dates := find_dates(meant):
        correct = correct or any(
            d[2][: 3 if dates[0][2][2] else 1] == dates[0][2][: 3 if dates[0][2][2] else 1] for d in find_dates(said)
        )
    correct = correct or same_name(said, meant) >= 0.7 or fold(said.strip(" .")) == fold(meant.strip(" ."))
    return {
        "correct": correct,
        "reasoning": "The same words or value." if correct else "Another value.",
        "probability": 0.9,
    }


@act("passage", "query")
@act("passage", "queries")
def prompted(inputs: Inputs) -> dict[str, Any]:
    """The reader knows nothing itself."""
    return {"passage": _UNKNOWN, "reasoning": "Nothing is known without passages."}


@act("passage", "question")
def internal(inputs: Inputs) -> dict[str, Any]:
    """The question's own names and words: the reader has no memory to search with."""
    return {
        "passage": " ".join(sentences_of(str(inputs["question"]))),
        "reasoning": "Nothing is known without passages.",
    }


@act("answer", "question", "reasoning confidence explanation")
def answer_question(inputs: Inputs) -> dict[str, Any]:
    """The best answer from whatever there is to read; `unknown` where there is nothing."""
    question = _question(inputs)
    given, extra = _given(inputs)
    sentences = [*_sentences(inputs), *extra]
    concluded = re.search(r"\banswer is:? +(.+?)\.?\s*$", str(inputs.get("text", "")))
    if concluded:
        found = Answer(concluded[1], 0.5)
    elif not sentences and not given:
        text = (
            "no"
            if question.form in ("polar", "same", "order")
            else question.options[0]
            if question.options
            else _UNKNOWN
        )
        found = Answer(text, 0.0)
    else:
        found = answer(question, sentences, given)
    why = (
        _explain(found)
        if found.support
        else "Nothing that was given says so; this is a guess."
        if not given
        else "It follows from the sub-answers."
    )
    return {
        "answer": _styled(found.text, found, inputs),
        "reasoning": f"{why} So the answer is {found.text}.",
        "explanation": why,
        "confidence": round(found.certainty, 3),
        "probability": max(0.5, found.certainty),
    }
