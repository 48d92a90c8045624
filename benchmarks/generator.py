"""A tiny causal model, made here, learns RQ-RAG's format and is asked with and without search.

A scripted teacher, which knows the gold sub-questions and answers, writes transcripts about worlds of the fictional
encyclopedia that are not in the sample. A causal model of 3 layers, 128 wide, is initialized with random weights,
trained on these transcripts by `generator_job`, and asked the questions of the sample's test split, whose entities it
has never seen: without search (depth 0), as a chain of decompositions, and as the whole tree of depth 2, whose answer
is chosen by ensemble.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dspy
from fictional import stream_questions
from fictional.articles import write_articles
from fictional.world import build_world
from models.prompt_engine import PromptEngine
from table import Table, note

from knowgap.compiling import Evaluation, compare, evaluate
from knowgap.compiling.data import load_dataset
from knowgap.compiling.run import Run
from knowgap.compiling.training import GeneratorConfig
from knowgap.compiling.training.fit import fit
from knowgap.compiling.training.generator import generator_job
from knowgap.compiling.training.transcripts import TranscriptRecord, construct_transcripts, count_transcripts
from knowgap.lms.embedded.inputs import Prompt
from knowgap.lms.trained import load_trained
from knowgap.programs.rq_rag import RQRAG
from knowgap.retrieval import BM25Index
from knowgap.signatures import STYLES

_SAMPLE_WORLDS, _PER_WORLD = 3, 100


def add_arguments(group: Any) -> None:
    """Add the arguments of this benchmark."""
    group.add_argument("--generator-worlds", type=int, default=6, help="worlds of 100 questions to train on (6)")
    group.add_argument("--generator-epochs", type=float, default=3, help="passes over the transcripts (3)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Make transcripts, train, and score on the sample's test split."""
    worlds = 2 if options.quick else options.generator_worlds
    config = GeneratorConfig(
        epochs=1 if options.quick else options.generator_epochs,
        learning_rate=2e-3,
        batch_size=4,
        gradient_accumulation=1,
        max_length=600,
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        made = _construct(folder, worlds)
        _write_base_model(folder / "base", made)
        job, _ = generator_job(made, folder / "generator", base=str(folder / "base"), config=config)
        result = fit(job, lambda done, total, text: note(f"{done} {text}"))
        note(f"{result.steps} steps in {result.seconds:.0f} s, loss {result.final_loss:.3f}")
        dataset = load_dataset("sample")
        index = BM25Index.build(dataset.corpus, folder / "sample")
        examples = dataset.questions("test", 10 if options.quick else None)
        generator = load_trained("generator", folder / "generator")
        yield _scores(index, generator, examples, job.examples)


class _Teacher(PromptEngine):
    """The engine of a language model that knows sub-questions and answers, by question."""

    def __init__(self, examples: list[dspy.Example]):
        self.known = {example.question: example for example in examples}

    def outputs(self, prompt: Prompt) -> dict[str, Any]:
        """The known sub-questions, or the known answer."""
        example = self.known[prompt.inputs["question"]]
        parts = list(dict.fromkeys(part["question"] for part in example.decomposition)) or [example.question]
        values = {"search": True, "queries": parts, "answer": example.answer, "supported": True}
        return {name: values[name] for name in prompt.outputs}


def _construct(folder: Path, worlds: int) -> list[TranscriptRecord]:
    """Transcripts about worlds behind those of the sample, of at most two queries with one passage each."""
    first, count = _SAMPLE_WORLDS * _PER_WORLD, worlds * _PER_WORLD
    examples = list(islice(stream_questions(first + count), first, None))
    numbers = range(_SAMPLE_WORLDS, _SAMPLE_WORLDS + worlds)
    passages = [passage for number in numbers for passage in write_articles(build_world(number))]
    index = BM25Index.build(passages, folder / "worlds")
    teacher = dspy.LM("benchmark/teacher", engine=_Teacher(examples), cache=False)
    config = GeneratorConfig(top_k=1, max_queries=2)
    made = construct_transcripts(examples, index, passages, folder / "transcripts.jsonl", config, Run(teacher))
    note(f"transcripts: {count_transcripts(made.records)}")
    return made.records


def _write_base_model(folder: Path, made: list[TranscriptRecord]) -> None:
    """A causal model with random weights, and a tokenizer trained on the transcripts and the sample's passages."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    texts = [str(passage) for passage in load_dataset("sample").corpus] + [*STYLES.values()] * 50
    for record in made:
        texts += [record.question, *(f"{step.query} {passage}" for step in record.steps for passage in step.found)]
    raw, byte_level = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel
    raw.pre_tokenizer, raw.decoder = byte_level(add_prefix_space=False), decoders.ByteLevel()
    special: Any = {"special_tokens": ["<s>", "</s>"], "initial_alphabet": byte_level.alphabet()}
    raw.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=6000, show_progress=False, **special))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    shape: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3}
    shape |= {"num_attention_heads": 4, "max_position_embeddings": 4096, "initializer_range": 0.05}
    config = LlamaConfig(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=1, tie_word_embeddings=True, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)


def _score(program: RQRAG, examples: list[dspy.Example], name: str) -> tuple[list[str], Evaluation]:
    result = evaluate(program, examples, ("f1", "exact_match", "upper_bound"), run=Run(num_threads=1))
    calls, unreadable = (sum(getattr(r.cost, part) for r in result.records) for part in ("lm_calls", "unreadable"))
    scores = [str(result.interval(metric)) for metric in ("f1", "exact_match", "upper_bound")]
    note(f"{name}: f1 {scores[0]}")
    return [name, *scores, f"{1 - unreadable / calls:.1%}", f"{calls / len(examples):.1f}"], result


def _scores(index: BM25Index, generator: dspy.LM, examples: list[dspy.Example], transcripts: int) -> Table:
    """Score the generator under several ways to search."""
    ways: dict[str, dict[str, Any]] = {"without search": {"depth": 0}}
    ways |= {"a chain of decompositions": {"actions": "decompose"}, "the tree": {}}
    rows, results = [], {}
    for name, settings in ways.items():
        row, results[name] = _score(RQRAG(index, generator=generator, top_k=1, **settings), examples, name)
        rows.append(row)
    tested = compare(results["without search"], results["the tree"], "f1")
    remark = (
        f"{transcripts} transcripts. The tree against without search: {tested.difference:+.3f} F1, "
        f"p = {tested.p_value:.3f} (paired). Upper bound: the best answer of any trajectory."
    )
    columns = ["search", "f1", "exact match", "upper bound", "can be read", "calls per question"]
    return Table(f"{len(examples)} questions of the sample's test split", columns, rows, [remark])
