"""Train RQ-RAG's generator: a teacher writes transcripts, and a causal model learns to write them.

A transcript has queries, the passages found, and an answer based on these. Source: "RQ-RAG: Learning to Refine Queries
for Retrieval Augmented Generation", sections 2.1 and 2.2, equation 2, appendices A.2, B.1 and B.4.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.provenance import retriever_facts
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.teacher import ask_teacher, write_records
from knowgap.compiling.training.config import GeneratorConfig, Job
from knowgap.compiling.training.fit import TrainingResult
from knowgap.compiling.training.language_model import IGNORED, Conversation, Row, train_language_model
from knowgap.errors import UsageError
from knowgap.lms.local import LocalModel
from knowgap.lms.transcripts import (
    CHAT_TEMPLATE,
    CONTROL_TOKENS,
    EVIDENCE,
    EVIDENCE_END,
    TranscriptStep,
    transcript,
    written,
)
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import clean_lines, text_of
from knowgap.programs.rq_rag import Trajectory
from knowgap.retrieval.indexes import BM25Index
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES
from knowgap.signatures.rq_rag import AnswerFromSearches, PlanSearches, QueriesForParts, QueriesForReadings
from knowgap.storage.files import json_digest
from knowgap.storage.processes import is_main_process, main_process_first

Action = Literal["rewrite", "decompose", "disambiguate"]

_STYLES = {"chat": "long", "instruction": "long", "long_form": "long", "multiple_choice": "choice"}
"""The style of the answer by the type of a question; `short` for all others."""
_MOST_QUERIES = 4  # of a transcript
_UNREADABLE = "a reply of the teacher could not be read"
_GIVEN = re.compile(rf"\n{re.escape(EVIDENCE)}.*?{re.escape(EVIDENCE_END)}\n", re.DOTALL)
"""What a query found, in a transcript."""


class TranscriptRecord(BaseModel, extra="forbid"):
    """The transcript of a question, or the reason why there is none.

    Attributes:
        id: the id of the question, and the beginning of its digest.
        action: how its queries are refined.
        question: what is asked.
        style: how the answer is worded, a key of `STYLES`.
        steps: the teacher's queries in order, each with the passages that it found, best first; none if no search is
            needed.
        answer: the teacher's answer from what the steps found.
        dropped: why there is no transcript, in words; empty if there is one.
    """

    id: str
    action: Action
    question: str
    style: str = "short"
    steps: list[tuple[str, list[Passage]]] = []
    answer: str = ""
    dropped: str = ""


def train_rq_rag(job: Job[GeneratorConfig]) -> list[TrainingResult]:
    """Let a teacher write transcripts, and train RQ-RAG's generator on them; see `train`."""
    file = job.output.with_name(f"{job.output.name}-transcripts.jsonl")
    if is_main_process() and not file.exists() and LocalModel(job.base, "cpu", "auto").is_seq2seq:
        raise UsageError(f"{job.base} is a sequence-to-sequence model: name a causal one, such as a Llama")
    with main_process_first():
        records, calls = construct_transcripts(job, file)
    done = train_generator(job, records)
    counts = Counter(each.dropped or f"written, {each.action}" for each in records)
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    note = f"transcripts of {len(records)} questions: {told}; {calls} calls of the teacher; {done.examples} learnt"
    return [replace(done, notes=(note,))]


def action_of(example: dspy.Example) -> Action:
    """How the queries of a question are refined: by its type in the data set, else by how many gold passages it has."""
    if example.get("type") in ("ambiguous", "long_form"):
        return "disambiguate"
    return "decompose" if len(example.get("gold_ids") or ()) > 1 else "rewrite"


def construct_transcripts(job: Job[GeneratorConfig], file: Path) -> tuple[list[TranscriptRecord], int]:
    """Make a transcript of every question that a record file does not have yet; see `write_records`.

    The questions have an `id`; `gold_ids`, `candidates` and `type` are used if given. Where a question
    names its candidates in the corpus, BM25 searches these alone (appendix B.4), and the teacher of a question of
    several steps sees them (table 5).
    """
    ids = check_examples(job.examples)
    by_id = {f"{id} {json_digest(each.question)[:8]}": each for id, each in zip(ids, job.examples, strict=True)}
    passages = {passage.id: passage for passage in job.corpus}

    def make(id: str) -> TranscriptRecord:
        example = by_id[id]
        style = _STYLES.get(str(example.get("type")), "short")
        record = TranscriptRecord(id=id, action=action_of(example), question=example.question, style=style)
        record.dropped = _write(record, example, passages, job)
        return record

    about = {"index": retriever_facts(job.retriever), "top_k": job.config.top_k}
    return write_records(list(by_id), make, file, TranscriptRecord, about, "transcript", job.run)


def _write(
    record: TranscriptRecord, example: dspy.Example, corpus: Mapping[str, Passage], job: Job[GeneratorConfig]
) -> str:
    """Let the teacher write the steps and the answer of a record; return why they cannot be used, or nothing."""
    teacher, top_k = job.run.lm, job.config.top_k
    gold = example.get("gold_ids") or []
    candidates = [corpus[name] for name in example.get("candidates") or () if name in corpus]
    searched = BM25Index.from_passages(candidates) if candidates else job.retriever
    inputs: dict[str, Any] = {"question": record.question, "max_queries": _MOST_QUERIES}
    signature = {"decompose": QueriesForParts, "disambiguate": QueriesForReadings}.get(record.action, PlanSearches)
    if record.action == "decompose":
        inputs["passages"] = distinct([*candidates, *(corpus[name] for name in gold if name in corpus)])
    elif record.action == "disambiguate":
        [hits] = searched.search([record.question], top_k)
        inputs["passages"] = [hit.passage for hit in hits]
    planned = ask_teacher(dspy.Predict(signature), teacher, **inputs)
    if planned is None:
        return _UNREADABLE
    if planned.get("search", True):
        queries, _ = clean_lines(planned.queries, _MOST_QUERIES)
        if not queries:
            return "the teacher wrote no query"
        for query, hits in zip(queries, searched.search(queries, top_k), strict=True):
            record.steps.append((query, [hit.passage for hit in hits]))
        ids = [passage.id for _, found in record.steps for passage in found]
        if record.action == "decompose" and found_gold(ids, {*gold}) < {*gold}:  # appendix B.4
            return "the queries did not find all gold passages"
    path = Trajectory(queries=tuple(query for query, _ in record.steps), found=tuple(tuple(f) for _, f in record.steps))
    inputs = {"question": record.question, "searched": path.searched, "passages": path.passages}
    answer = ask_teacher(dspy.Predict(AnswerFromSearches), teacher, **inputs, style=STYLES[record.style])
    record.answer = text_of(answer)  # which need not be the known one (section 4.4)
    return "" if record.answer else _UNREADABLE


def train_generator(job: Job[GeneratorConfig], records: Sequence[TranscriptRecord]) -> TrainingResult:
    """Train a generator on transcripts, with the control tokens added to the vocabulary of the base.

    Transcripts that were dropped are left out. With LoRA, the new embeddings of the control tokens are trained as well,
    and so is the last layer if it does not share them.
    """
    learnt: list[Conversation] = []
    for record in records:
        if not record.dropped:
            steps = [TranscriptStep(record.action, query, found) for query, found in record.steps]
            learnt.append(transcript(STYLES[record.style], record.question, steps, written("answer", record.answer)))
    return train_language_model(
        job,
        learnt,
        {"kind": "rq-rag"},
        encode=lambda local, turns: encode(local.tokenizer, turns),
        prepare=lambda local: add_control_tokens(local.tokenizer, local.model),
    )


def encode(tokenizer: Any, messages: Conversation) -> Row:
    """Encode a transcript.

    The loss is on the control tokens of actions, the queries, the answer and their ends (equation 2), and neither on
    the prompt nor on the retrieved passages.
    """
    text = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    begin = len(text) - len(messages[-1]["content"])
    given = [(0, begin), *(found.span() for found in _GIVEN.finditer(text, begin))]
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ids, places = encoded["input_ids"], encoded["offset_mapping"]
    learnt = [not any(first <= place < end for first, end in given) for place, _ in places]
    return {"input_ids": ids, "labels": [id if own else IGNORED for id, own in zip(ids, learnt, strict=True)]}


def add_control_tokens(tokenizer: Any, model: Any) -> dict[str, Any]:
    """Give a tokenizer the control tokens that it lacks and the chat template, and a model embeddings for them.

    New embeddings are drawn around the mean of the others (Transformers' `mean_resizing`).

    Returns:
        The settings of LoRA by which these embeddings are trained.
    """
    from transformers import AddedToken

    # They are no special tokens, since servers leave these out of a reply.
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in CONTROL_TOKENS])
    tokenizer.chat_template = CHAT_TEMPLATE
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    names = {part: name.rpartition(".")[2] for name, part in model.named_modules()}
    given, read = model.get_input_embeddings(), model.get_output_embeddings()
    settings: dict[str, Any] = {
        "trainable_token_indices": {names[given]: tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS))}
    }
    if read is not None and read.weight is not given.weight:
        settings["modules_to_save"] = [names[read]]
    return settings
