"""Arguments of a wrong type are named in one line; an index may be its folder; what comes back prints short."""

from __future__ import annotations

import inspect
from pathlib import Path

import dspy
import numpy as np
import pytest
from support import TableRetriever

import knowgap
from knowgap.arguments import _adapters, checked
from knowgap.errors import IndexMissing, UsageError
from knowgap.programs import PROGRAMS, get_program
from knowgap.retrieval import RemoteRetriever

UNCHECKED = {"extractive_lm", "get_metric", "get_program"}  # options of another library; names that are looked up
EXAMPLES = [dspy.Example(question="Who designed the Orle Bridge?", answer="Ada Venn").with_inputs("question")]
PASSAGE = knowgap.Passage("orle", "Orle Bridge", "The Orle Bridge was designed by Ada Venn.")
DIRECT = get_program("direct")()


def public_functions() -> dict:
    functions = {name: getattr(knowgap, name) for name in knowgap.__all__}
    builders = {
        f"{c}.{m}": getattr(functions[c], m).__func__ for c in ("BM25Index", "ColBERTIndex") for m in ("build", "open")
    }
    inits = {name: get_program(name).__init__ for name in PROGRAMS}
    return {
        name: f for name, f in (functions | builders | inits).items() if inspect.isfunction(f) and name not in UNCHECKED
    }


@pytest.mark.parametrize(("name", "function"), public_functions().items())
def test_every_public_function_checks_every_argument_that_has_a_type(name: str, function):
    annotated = {
        n
        for n, p in inspect.signature(function).parameters.items()
        if p.annotation is not p.empty and p.kind != p.VAR_KEYWORD
    }
    assert annotated <= _adapters(function.__wrapped__).keys()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: knowgap.evaluate("rag", EXAMPLES),
            "evaluate: program must be Program | DelegatingProgram, but it is str: 'rag'",
        ),
        (lambda: knowgap.evaluate(DIRECT, [{"question": "x"}]), "examples must be Sequence[Example], but [0] is dict"),
        (lambda: knowgap.evaluate(DIRECT, EXAMPLES, num_threads="4"), "num_threads must be int, but it is str: '4'"),
        (lambda: knowgap.evaluate(DIRECT, EXAMPLES, lm="openai/x"), "lm must be BaseLM | None, but it is str"),
        (
            lambda: knowgap.tune(DIRECT, devset=EXAMPLES, metric="f1", n_trials=2.5),
            "tune: n_trials must be int, but it is float",
        ),
        (
            lambda: knowgap.tune(DIRECT, devset=EXAMPLES, metric="f1", study={"rule": "best"}),
            "study must be StudyConfig | None",
        ),
        (lambda: knowgap.compile_program(DIRECT, "questions.jsonl", metric="f1"), "trainset must be Sequence[Example]"),
        (lambda: knowgap.compare({}, {}), "compare: before must be Evaluation, but it is dict: {}"),
        (lambda: knowgap.load(None), "load_artifact: folder must be str | Path, but it is NoneType: None"),
        (
            lambda: knowgap.save(PASSAGE, "out"),
            "save_artifact: program must be Program | DelegatingProgram, but it is Passage",
        ),
        (lambda: knowgap.load_dataset(7), "load_dataset: name_or_path must be str | Path | Mapping[str, str | Path]"),
        (lambda: knowgap.open_index([PASSAGE]), "open_index: path must be str | Path, but it is list"),
        (
            lambda: knowgap.BM25Index.build(7, "index"),
            "BM25Index.build: passages must be Iterable[Passage], but it is int: 7",
        ),
        (
            lambda: knowgap.MIGRES(reranker="embedded"),
            "MIGRES: reranker must be Reranker | None, but it is str: 'embedded'",
        ),
        (lambda: knowgap.MIGRES(5), "MIGRES: retriever must be Retriever | str | Path | None, but it is int: 5"),
        (lambda: DIRECT(question=5), "question must be str, not int: 5"),
        (lambda: knowgap.get_program(5), "unknown program 5: known are"),
    ],
)
def test_a_wrong_type_is_named_in_one_line(call, words: str):
    with pytest.raises(UsageError) as refusal:
        call()
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_what_fits_is_passed_on_as_it_is():
    @checked
    def same(one: list[int], *rest: str, number: int = 0, unknown: Nowhere = None):  # noqa: F821
        return one

    @checked
    def number(value: int, more: float = 0.5):
        return value, more

    anything = ["not", "looked", "at"]
    assert same(anything) is anything  # an annotation cannot be resolved
    assert number(np.int64(3), more=2) == (3, 2)
    with pytest.raises(TypeError, match="missing a required argument: 'value'"):
        number()
    with pytest.raises(UsageError, match="value must be int, but it is bool: True"):
        number(True)


def test_a_retriever_may_be_a_folder_or_an_address(tmp_path: Path):
    folder = tmp_path / "my index"
    knowgap.BM25Index.build([PASSAGE], folder)
    for place in (folder, str(folder)):
        program = get_program("rag")(place)
        assert program.retrieve_passages
        assert isinstance(program.retriever, knowgap.BM25Index)
    assert isinstance(get_program("rag")(retriever="http://127.0.0.1:9").retriever, RemoteRetriever)
    with pytest.raises(IndexMissing, match=r"`knowgap index --corpus FILE --index '.*/no index'`"):
        knowgap.MIGRES(tmp_path / "no index")


def test_what_comes_back_prints_short():
    lm = knowgap.make_lm("extractive", cache=False)
    program = get_program("rag")(TableRetriever({EXAMPLES[0].question: [PASSAGE]}))
    with dspy.context(lm=lm):
        prediction = program(question=EXAMPLES[0].question)
    printed = str(prediction)
    assert printed == repr(prediction)
    assert printed.startswith("Prediction(answer='Ada Venn', passages=['Orle Bridge'], trace=Trace(rag: ")
    assert "1 LM calls" in printed
    evaluation = knowgap.evaluate(program, EXAMPLES, "f1", lm=lm, num_threads=1)
    assert str(evaluation).startswith(
        "Evaluation(rag; 1 questions, 0 failed; f1 1.000 [1.000, 1.000]; 1.0 LM calls and "
    )
    tuned = knowgap.tune(program, devset=EXAMPLES, metric="f1", n_trials=1, lm=lm)
    assert str(tuned).startswith(
        "Tuning(rag: 1 trials, ended by: trials; trial 0 is chosen with f1 1.000 on dev; 1.000 "
    )
    dataset = knowgap.load_dataset("sample")
    assert repr(dataset) == "Dataset(sample: 100 train, 100 dev, 100 test questions; 996 passages)"
    assert max(map(len, map(str, (prediction, prediction.trace, evaluation, tuned, dataset)))) < 300
