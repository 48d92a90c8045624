import copy
import json

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import EmbeddedEntailment, NLICrossEncoder, T5TrueNLI, make_entailment
from knowgap.retrieval.entailment.embedded import EntailmentWeights
from knowgap.retrieval.entailment.features import name_runs, read_words
from tests.retrieval.conformance import corpus
from tests.retrieval.tiny import logits_of, write_cross_encoder, write_multilingual_nli, write_t5

TEXTS = [str(passage) for passage in corpus(8)]
PAIRS = [(premise, hypothesis) for premise in TEXTS for hypothesis in TEXTS[::3]]
LABELS = ["contradiction", "entailment", "neutral"]

FILM = "Silver Harbour: Silver Harbour is a 1961 drama film directed by Ida Brenner. It was not shown in Aldern."


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "nli": write_cross_encoder(folder / "nli", TEXTS, names=LABELS),
        "binary": write_cross_encoder(folder / "binary", TEXTS, labels=1),
        "unnamed": write_cross_encoder(folder / "unnamed", TEXTS, labels=3),
        "t5": write_t5(folder / "t5", TEXTS),
    }


@pytest.mark.parametrize("kind", ["nli", "binary", "t5", "embedded"])
def test_probabilities(models, kind):
    model = make_entailment(models.get(kind, kind))
    values = model.entails(PAIRS)
    assert len(values) == len(PAIRS)
    assert all(0 <= value <= 1 for value in values)
    assert len(set(values)) > 3
    assert model.entails([PAIRS[5], PAIRS[2], PAIRS[5]]) == [values[5], values[2], values[5]]
    assert model.entails([]) == []
    assert model.default_threshold == 0.5
    assert model.name
    assert copy.deepcopy(model) is model


def test_a_sentence_with_a_name_in_another_script_is_entailed_by_itself():
    sentence = "School on Fire (學校風雲) is a 1988 Hong Kong film directed by Ringo Lam."
    (value,) = EmbeddedEntailment().entails([(f"School on Fire: {sentence} It was shown in Aldern.", sentence)])
    assert value >= 0.5


def test_nli_is_the_softmax_at_its_entailment_label(models):
    expected = logits_of(models["nli"], PAIRS[:9]).softmax(-1)[:, 1].tolist()
    assert NLICrossEncoder(models["nli"]).entails(PAIRS[:9]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("kind", "label"), [("DebertaV2", 0), ("XLMRoberta", 2)])
def test_multilingual_models_judge_texts_of_any_length(tmp_path, kind, label):
    """The two architectures that are trained on XNLI, with the order of labels that each usually has."""
    pair = ("Der Leuchtturm von Tarn wurde 1884 gebaut.", "El faro es de 1884.")
    folder = write_multilingual_nli(tmp_path / "xnli", [*pair, *TEXTS], kind)
    expected = logits_of(folder, [pair]).softmax(-1)[0, label].item()
    short, long = make_entailment(folder).entails([pair, (" ".join(TEXTS), pair[1])])
    assert short == pytest.approx(expected, abs=1e-4)
    assert 0 <= long <= 1


@pytest.mark.parametrize("half", [True, False])
def test_t5_is_the_odds_of_its_first_answer(models, monkeypatch, half):
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(models["t5"])
    model = T5ForConditionalGeneration.from_pretrained(models["t5"]).eval()
    expected = []
    for premise, hypothesis in PAIRS[:9]:
        inputs = tokenizer(f"premise: {premise} hypothesis: {hypothesis}", return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0].double().numpy()
        zero, one = logits[tokenizer.convert_tokens_to_ids(["0", "1"])]
        expected.append(1 / (1 + np.exp(zero - one)))
    if not half:
        monkeypatch.setattr("knowgap.retrieval.entailment.model.bfloat16_on", lambda device: False)
    probabilities = T5TrueNLI(models["t5"]).entails(PAIRS[:9])
    assert probabilities == pytest.approx(expected, abs=0.05 if half else 1e-4)


def test_refuses_what_is_no_entailment_model(models, tmp_path):
    with pytest.raises(CheckpointError, match="none of its labels is entailment: label_0"):
        NLICrossEncoder(models["unnamed"])
    with pytest.raises(CheckpointError, match="absent: no such folder"):
        make_entailment(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="nli: cannot be loaded"):
        T5TrueNLI(models["nli"])


@pytest.mark.parametrize(
    ("hypothesis", "entailed"),
    [
        ("Silver Harbour is a 1961 drama film directed by Ida Brenner.", True),
        ("Ida Brenner directed Silver Harbour in 1961.", True),
        ("Silver Harbour was directed by Tom Hale.", False),
        ("Silver Harbour is a 1975 drama film directed by Ida Brenner.", False),
        ("Rivers rise in the hills.", False),
        ("", False),
    ],
)
def test_embedded_tells_what_is_said_from_what_is_not(hypothesis, entailed):
    assert (EmbeddedEntailment().entails([(FILM, hypothesis)])[0] >= 0.5) == entailed


def test_embedded_weighs_negation():
    hypotheses = ["The film was not shown in Aldern.", "The film was shown in Aldern."]
    said, denied = EmbeddedEntailment().entails([(FILM, hypothesis) for hypothesis in hypotheses])
    assert said > denied


def test_embedded_takes_a_surname_for_the_full_name():
    premise = "Silver Harbour: Silver Harbour is a 1961 drama film directed by Brenner. It was shown in Aldern."
    full, other = EmbeddedEntailment().entails(
        [(premise, f"Silver Harbour is a 1961 drama film directed by {name}.") for name in ("Ida Brenner", "Ida Hale")]
    )
    assert full >= 0.5
    assert other < full


def test_embedded_wants_the_answer_to_a_question_in_the_premise():
    model = EmbeddedEntailment()
    framed = 'The answer to the question "Which river flows through the birthplace of Ada Moor?" is "Tarn River".'
    with_it, without = "Wick lies on the banks of the Tarn River.", "Hale lies on the banks of the Orle River."
    assert model.entails([(with_it, framed), (without, framed)])[0] > 0.5
    assert model.entails([(without, framed)]) == [0.0]


def test_embedded_does_not_depend_on_what_else_is_asked():
    pairs = [(FILM, "Ida Brenner directed it."), (FILM, ""), ("", "Rivers rise."), (TEXTS[0], "Rivers rise in hills.")]
    together = EmbeddedEntailment().entails(pairs)
    assert together[1:3] == [0.0, 0.0]
    assert together == pytest.approx([EmbeddedEntailment().entails([pair])[0] for pair in pairs], abs=1e-3)


@pytest.mark.parametrize("damage", ["missing", "cut off", "a weight changed", "another encoder"])
def test_embedded_refuses_damaged_weights(tmp_path, damage):
    path = tmp_path / "entailment.json"
    EntailmentWeights.load().save(tmp_path)
    record = json.loads(path.read_text("utf-8"))
    if damage == "missing":
        path.unlink()
    elif damage == "cut off":
        path.write_text(json.dumps(record)[:-30], "utf-8")
    elif damage == "a weight changed":
        record["weights"]["coverage"] += 1
        path.write_text(json.dumps(record), "utf-8")
    else:
        path.write_text(json.dumps({**record, "encoder": "0"}), "utf-8")
    with pytest.raises(CheckpointError, match=r"entailment\.json"):
        EmbeddedEntailment(tmp_path)


def test_names_are_runs_of_capitals():
    text = "The Grey Ferry of Wick was painted by Ada van Moor in 1891. Painters liked it. McDonald bought it."
    assert [name for name, _ in name_runs(text)] == ["Grey Ferry of Wick", "Ada van Moor", "McDonald"]
    assert all(text[start : start + len(name)] == name for name, start in name_runs(text))


def test_words_have_kinds():
    kinds = {word.stem: word.kind for word in read_words("Ada Moor sold 1,200 boats in the 1890s, 3.5 a week.")}
    numbers = {"1200": "number", "1890": "number", "3.5": "number"}
    assert kinds == {"ada": "name", "moor": "name", "sold": "word", "boat": "word", "week": "word", **numbers}
