"""The trained sub-models of RA-ISF: what they read, what they say, and what is no sub-model."""

import copy
import json
import math
import pickle
import shutil

import pytest

from knowgap.errors import CheckpointError, LanguageModelError
from knowgap.lms.ra_isf.card import CARD_FILE, SubModelCard
from knowgap.lms.ra_isf.sub_models import fit_prompt, join_questions, load_sub_model, split_questions, target_ids
from tests.lms.ra_isf.tiny import write_sub_model

QUESTIONS = ["Who painted The Grey Ferry?", "Where?", "Where was the painter of The Grey Ferry born, and when?"]
PASSAGE = "Ada Moor: Ada Moor painted ships in the harbour of Tarn."
KINDS = ("seq2seq", "causal", "cross_encoder")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(task, kind, **changes):
        key = (task, kind, *changes.items())
        if key not in made:
            made[key] = write_sub_model(tmp_path_factory.mktemp("sub") / task, task, kind, **changes)
        return made[key]

    return folder


def label_probability(folder, question, passage=""):
    """The probability of yes, computed from the model's own loss on prompt and label, one at a time."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    card = SubModelCard.model_validate_json((folder / CARD_FILE).read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = (AutoModelForSeq2SeqLM if card.kind == "seq2seq" else AutoModelForCausalLM).from_pretrained(folder)
    scores = []
    for label in card.labels:
        prompt = tokenizer(card.prompt.format(question=question, passage=passage))["input_ids"]
        target = [*target_ids(tokenizer, card, label), tokenizer.eos_token_id]
        joined, ignored = (prompt, []) if card.kind == "seq2seq" else ([*prompt, *target], [-100] * len(prompt))
        with torch.inference_mode():
            loss = model(input_ids=torch.tensor([joined]), labels=torch.tensor([[*ignored, *target]])).loss
        scores.append(-float(loss) * len(target))
    return 1 / (1 + math.exp(scores[0] - scores[1]))


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_a_judgement_is_the_probability_of_the_label_yes(folders, kind):
    know, relevant = folders("know", kind), folders("relevant", kind)
    expected = [label_probability(know, question) for question in QUESTIONS]
    assert load_sub_model("know", know).knows(QUESTIONS) == pytest.approx(expected, rel=1e-3, abs=1e-15)
    assert len(set(expected)) == len(expected)
    judged = load_sub_model("relevant", relevant).relevant([(question, PASSAGE) for question in QUESTIONS])
    assert judged == pytest.approx([label_probability(relevant, q, PASSAGE) for q in QUESTIONS], rel=1e-3, abs=1e-15)


def test_a_label_ends_as_in_training_whatever_else_may_end_a_reply(tmp_path):
    folder = write_sub_model(tmp_path / "know", "know", "causal")
    expected = load_sub_model("know", folder).knows(QUESTIONS)
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": [1, 5]}))
    assert load_sub_model("know", folder).knows(QUESTIONS) == pytest.approx(expected)


def test_a_cross_encoder_gives_what_sentence_transformers_gives(folders):
    from sentence_transformers import CrossEncoder

    folder = folders("relevant", "cross_encoder")
    encoder = CrossEncoder(str(folder), device="cpu")  # which gives the sigmoid of one logit
    pairs = [(question, PASSAGE) for question in QUESTIONS]
    expected = encoder.predict(pairs, show_progress_bar=False)
    assert load_sub_model("relevant", folder).relevant(pairs) == pytest.approx(expected.tolist(), abs=1e-4)
    expected = encoder.predict([(question, "") for question in QUESTIONS], show_progress_bar=False)
    known = load_sub_model("know", folders("know", "cross_encoder")).knows(QUESTIONS)
    assert known == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_sub_questions_are_what_the_model_writes_greedily_alone_or_in_a_batch(folders, kind, monkeypatch):
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    monkeypatch.setattr("knowgap.lms.local.batches._LOOP", 1000)  # untrained models repeat themselves
    folder = folders("decompose", kind)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    plain = (AutoModelForSeq2SeqLM if kind == "seq2seq" else AutoModelForCausalLM).from_pretrained(folder)
    model = load_sub_model("decompose", folder)
    texts = []
    for question in QUESTIONS:
        prompt = tokenizer(model.card.prompt.format(question=question), return_tensors="pt")
        prompt.pop("token_type_ids", None)
        with torch.inference_mode():
            output = plain.generate(**prompt, max_new_tokens=128, do_sample=False)[0]
        written = output[1:] if kind == "seq2seq" else output[prompt["input_ids"].shape[1] :]
        texts.append(split_questions(tokenizer.decode(written, skip_special_tokens=True)))
    assert any(texts)
    assert [model.decompose([question])[0] for question in QUESTIONS] == texts
    assert model.decompose(QUESTIONS) == texts


def test_of_a_long_passage_as_much_is_read_as_there_is_room_for(folders):
    from transformers import AutoTokenizer

    for kind in ("seq2seq", "causal"):
        model = load_sub_model("relevant", folders("relevant", kind))
        tokenizer = AutoTokenizer.from_pretrained(model.folder)
        prompt = fit_prompt(tokenizer, model.card, QUESTIONS[0], PASSAGE * 50)
        assert len(tokenizer(prompt)["input_ids"]) <= model.card.max_tokens + 2  # a cut may divide a token
        assert prompt.endswith(model.card.prompt.rpartition("}")[2])
        assert "Ada Moor painted" in prompt
        assert 0 <= model.relevant([(QUESTIONS[0], PASSAGE * 50)])[0] <= 1
    assert (
        0 < load_sub_model("relevant", folders("relevant", "cross_encoder")).relevant([("Who?", "ship " * 999)])[0] < 1
    )


def test_sub_questions_survive_being_written_as_text():
    questions = ["Who painted The Grey Ferry?", "Where was #1 born?", "Is A|B older than #2?"]
    assert split_questions(join_questions(questions)) == [*questions[:2], "Is A/B older than #2?"]
    assert split_questions(" | Who is # 1's mother?|  | ") == ["Who is #1's mother?"]
    assert split_questions("") == []


def test_the_digest_changes_with_the_files_and_copies_are_the_same_object(folders, tmp_path):
    folder = tmp_path / "copied"
    shutil.copytree(folders("know", "causal"), folder)
    one = load_sub_model("know", folder)
    assert one.digest == load_sub_model("know", folders("know", "causal")).digest
    assert copy.deepcopy(one) is one
    sent = pickle.loads(pickle.dumps(one))  # as to a worker of Ray
    assert (sent.folder, sent.card, sent.digest) == (one.folder, one.card, one.digest)
    card = one.card.model_copy(update={"threshold": 0.25})
    card.write(folder)
    assert load_sub_model("know", folder).digest != one.digest
    assert load_sub_model("know", folder).threshold == 0.25


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / CARD_FILE).unlink(), "knowgap train ra-isf"),
        (lambda folder: (folder / CARD_FILE).write_text("{"), "is damaged"),
        (lambda folder: (folder / CARD_FILE).write_text(json.dumps({"task": "relevant"})), "is damaged"),
        (lambda folder: SubModelCard.make("know", "causal").write(folder), "'know' of RA-ISF, not 'relevant'"),
        (lambda folder: (folder / "config.json").write_text("{}"), "cannot be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"{"), "cannot be loaded"),
    ],
)
def test_what_is_no_such_sub_model_is_refused(folders, tmp_path, damage, said):
    shutil.copytree(folders("relevant", "causal"), tmp_path / "damaged")
    damage(tmp_path / "damaged")
    with pytest.raises((CheckpointError, LanguageModelError), match=said):
        load_sub_model("relevant", tmp_path / "damaged").relevant([("Who?", PASSAGE)])


def test_labels_that_the_tokenizer_does_not_tell_apart_are_refused(folders, tmp_path):
    shutil.copytree(folders("know", "causal"), tmp_path / "same")
    SubModelCard.make("know", "causal").model_copy(update={"labels": ("x", "x")}).write(tmp_path / "same")
    with pytest.raises(CheckpointError, match="cannot tell x and x apart"):
        load_sub_model("know", tmp_path / "same").knows(["Who?"])
