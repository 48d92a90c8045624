"""What each command refuses: one line with the value and the way out, exit code 2, and nothing made."""

import shlex

import pytest

from tests.app.cli.conftest import Knowgap

ASK = "ask Who? --index idx"
EVAL = "eval --program rag --data questions.jsonl --whole --index idx"
COMPILE = "compile --limit 2 --output-dir out"
TRAIN = "train --data questions.jsonl --index idx --output new"
REFUSED = {
    "ask": [
        ("ask '  '", "question is empty"),
        ("ask Who? --index docs.jsonl", "docs.jsonl: not an index"),
        ("ask Who? --index ./docz", "docz: there is no such folder"),
        (f"{ASK} --program migress", "did you mean 'migres'"),
        (f"{ASK} --program idx", "idx is not an artifact"),
        (f"{ASK} --program compiled", "compiled/artifact is one"),
        (f"{ASK} --program no/such", "unknown program 'no/such'"),
        (f"{ASK} --program mien:Twice", "there is no module mien"),
        (f"{ASK} --program knowgap:MIGERS", "did you mean 'MIGRES'?"),
        (f"{ASK} --program ./knowgap:MIGRES", "unknown program './knowgap:MIGRES'"),
        (f"{ASK} --program knowgap:Program", "defines forward"),
        (f"{ASK} --program rag --set top_k=500", "from 1 to 50"),
        (f"{ASK} --program rag --set top_k", "--set top_k: write it as NAME=VALUE"),
        (f"{ASK} --program migres --set preset=closed_domain", "'closed_domain'"),
        (f"{ASK} --program rag --part reranker=embedded", "no reranker"),
        (f"{ASK} --part reranker=no/such/model", "no/such/model: no such folder"),
        (f"{ASK} --api-base http://127.0.0.1:9/v1", "api_base"),
        (f"{ASK} --lm extractive --api-base http://127.0.0.1:9", "api_base"),
        (f"{ASK} --lm extractive --lm-option temperature=0.5", "temperature"),
        (f"{ASK} --lm openai/o3 --lm-option temperature=0.5", "'openai/o3'"),
        (f"{ASK} --lm openai/", "'openai/'"),
        (f"{ASK} --lm hf/./nowhere", "'hf/./nowhere'"),
        (f"{ASK} --lm-option temperature=hot", "temperature=hot"),
        (f"{ASK} --lm-option temprature=0.2", "did you mean 'temperature'"),
        (f"{ASK} --lm openai/m --lm-option api_key=secret", "'api_key'"),
        (f"{ASK} --lm openai/m --lm-option extra_body=min_p=1", "extra_body=min_p=1"),
    ],
    "search": [
        ("search '' --index idx", "query is empty"),
        ("search q --index ''", "--index is blank"),
        ("search q --index http://127.0.0.1:9", "no index server answers"),
        ("search q --index faiss:nowhere", "no such folder"),
        ("search q --index altavista+http://127.0.0.1:9", "unknown kind of server 'altavista'"),
    ],
    "index": [
        ("index --index '' --corpus docs.jsonl", "--index is blank"),
        ("index --index new", "either --data or --corpus"),
        ("index --index new --data questions.jsonl", "no passages of its own"),
        ("index --index new --data sample --engine-option passage_tokens=64", "unknown setting"),
        ("index --index new --corpus docs.jsonl --engine altavista", "'altavista'"),
        ("index --index new --corpus docs.jsonl --engine bm25 --engine-option encoder=x", "encoder"),
        ("index --index new --corpus docs.jsonl --engine-option passage_tokens=31", "passage_tokens = 31"),
        ("index --index new --corpus docs.jsonl --engine-option passage_tokens=many", "passage_tokens = many"),
        ("index --index notes --corpus notes", "notes holds other files"),
        ("index --index . --corpus notes", "holds other files"),
        ("index --index idx --corpus notes", "corpus"),
        ("index --index idx --corpus docs.jsonl --engine-option passage_tokens=64", "256, not 64"),
        ("index --index docs.jsonl/idx --corpus docs.jsonl --engine bm25", "docs.jsonl"),
    ],
    "serve": [
        ("serve ''", "FOLDER is blank"),
        ("serve docs.jsonl", "there is no such folder of documents"),
        ("serve notes --index idx", "leave it out"),
        ("serve --index idx --program rag --host 0.0.0.0", "set a key"),
    ],
    "ls": [("ls progams", "did you mean 'programs'?")],
    "eval": [
        ("eval --program all,rag --data questions.jsonl", "all"),
        ("eval --program ' , ' --data questions.jsonl", "all alone"),
        ("eval --program json:loads --data questions.jsonl", "is of the type function"),
        ("eval --program rag --data questions.jsonl --whole", "no index"),
        ("eval --program rag --whole", "--whole takes one file"),
        ("eval --program rag --data absent.json", "absent.json"),
        ("eval --program rag --data hotpotqa", "hotpotqa:PATH"),
        ("eval --program rag --data hotpoqa:dev.json", "did you mean 'hotpotqa'?"),
        ("eval --program rag --data sample:dev.json", "unknown layout 'sample': known are"),
        (f"{EVAL} --split tset", "did you mean 'test'?"),
        (f"{EVAL} --metric exact_mach", "did you mean 'exact_match'?"),
        (f"{EVAL} --limit 0", "limit 0"),
    ],
    "compile": [
        (f"{COMPILE} --program rag --optimizer boot", "unknown optimizer 'boot'"),
        (f"{COMPILE} --program rag --optimizer bootstrap --range top_k=1:3", "takes no settings of a study"),
        (f"{COMPILE} --program rag --optimizer bootstrap --n-trials 9", "takes no settings of a study"),
        (f"{COMPILE} --program rag --optimizer bootstrap --study max_calls=9", "max_calls"),
        (f"{COMPILE} --program rag --optimizer mipro --study auto=light --study num_candidates=2", "mipro"),
        (f"{COMPILE} --program rag --optimizer mipro", "'knowgap/extractive-10'"),
        (f"{COMPILE} --program rag --optimizer labeled --study k=four", "'four'"),
        (f"{COMPILE} --optimizer calibrate --part reranker=embedded --study share=half", "share='half'"),
        (f"{COMPILE} --optimizer calibrate --part reranker=embedded --study shar=0.5", "did you mean 'share'?"),
        (f"{COMPILE} --program rag --n-trials 0", "n_trials = 0"),
        (f"{COMPILE} --program rag --optimizer gepa --dry-run", "cannot be estimated"),
        (f"{COMPILE} --program rag --range top_k=3", "as LOW:HIGH"),
        (f"{COMPILE} --program rag --range top_k=3:2", "(3.0, 2.0)"),
        (f"{COMPILE} --program rag --range top_k=1:99", "top_k=99"),
        (f"{COMPILE} --program blend_filter --range internal=0:1", "internal is not a number"),
        (f"{COMPILE} --program rag --study mode=pareto", "unknown setting of a study 'mode'"),
        (f"{COMPILE} --program rag --study hold_out=4", "can be held out"),
        (f"{COMPILE} --program rag --range topk=1:3 --study storage=new.db", "did you mean 'top_k'?"),
        (f"{COMPILE} --program rag,ircot --range topk=1:3", "did you mean 'top_k'?"),
        (f"{COMPILE} --program rag --study demos=some", "demos = 'some'"),
        (f"{COMPILE} --program rag --study storage=docs.jsonl", "docs.jsonl"),
        (f"{COMPILE} --program rag --study storage=nonsense://me:secret@somewhere", "nonsense://somewhere"),
        (f"{COMPILE} --program direct,rag", "nothing to search over: direct"),
        (f"{COMPILE} --program rag,ircot --set top_k=3", "one program"),
        (f"{COMPILE} --program rag,ircot --set preset=multihop", "one program"),
        (f"{COMPILE} --program rag,ircot --optimizer labeled", "one program"),
        (f"{COMPILE} --program rag,ircot --part reranker=embedded", "has no reranker"),
        ("compile --program direct --data three.jsonl", "2 train, "),
        ("compile --program direct --optimizer labeled --output-dir compiled", "is not an artifact"),
    ],
    "train": [
        (f"{TRAIN} reranker --set epochs=0", "epochs = '0'"),
        (f"{TRAIN} reranker --set epoch=2", "did you mean 'epochs'?"),
        (f"{TRAIN} reranker --model nowhere/at/all", "nowhere/at/all: no such folder"),
        (f"{TRAIN} reranker --preset paper", "only to rq-rag and ra-isf"),
        (f"{TRAIN} rq-rag", "--model"),
        (f"{TRAIN} rq-rag --model any", "--lm"),
    ],
    "experiment": [
        ("experiment no_such", "no_such"),
        ("experiment own_questions --data-path questions.jsonl", "NAME=VALUE"),
        ("experiment own_questions", "own=PATH"),
        ("experiment own_questions -d own=questions.jsonl -d mine=questions.jsonl", "mine"),
        ("experiment own_questions -d own=questions.jsonl", "own has no passages"),
        ("experiment own_questions -d own=questions.jsonl -i own=idx --row nobody", "nobody"),
    ],
    "questions": [
        ("questions --index idx", "--lm"),
    ],
    "report": [("report nowhere", "nowhere"), ("report idx", "idx holds")],
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_a_command_refuses(indexed: Knowgap, command: str):
    (indexed.folder / "notes").mkdir()
    (indexed.folder / "notes" / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    lines = (indexed.folder / "questions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (indexed.folder / "three.jsonl").write_text("".join(lines[:3]), encoding="utf-8")
    (indexed.folder / "compiled" / "artifact").mkdir(parents=True)
    (indexed.folder / "compiled" / "artifact" / "config.json").write_text("{}", encoding="utf-8")
    before = {path.name for path in indexed.folder.iterdir()}
    texts = {path: path.read_text(encoding="utf-8") for path in indexed.folder.glob("*.jsonl")}
    for words, reason in REFUSED[command]:
        refusal = indexed.refusal(*shlex.split(words))
        assert reason in refusal, words
        assert "secret" not in refusal
    assert {path.name for path in indexed.folder.iterdir()} - before <= {"home", "out"}
    assert texts == {path: path.read_text(encoding="utf-8") for path in texts}
    assert not (indexed.folder / "out" / "artifact").exists()
