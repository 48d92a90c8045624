import hashlib
import itertools
import json
from collections import Counter

import pytest

from knowgap.compile.data import fictional, load_dataset, sample, stream_passages, stream_questions
from knowgap.compile.data.dataset import SPLITS
from knowgap.compile.data.fictional_names import ENDINGS, Dice, coin
from knowgap.compile.data.fictional_phrases import ASK, KIN, OF
from knowgap.compile.data.fictional_questions import MIX
from knowgap.compile.data.fictional_text import write_articles
from knowgap.compile.data.fictional_wordings import HERE, LEADS, NOISE, THERE
from knowgap.compile.data.fictional_world import build_world
from knowgap.errors import ValueOutOfBounds

# What the seed 0 gives, on every machine and version of Python. A change of generator changes every benchmark figure.
SAMPLE_FINGERPRINT = "5d0dd80642dcc5253eef23a710735c99bc5bca3d9310bde79dfde63ee3422a82"
SAMPLE_BYTES = "b8b477cfe851be7a0cabb565b94b94fe8f6107c36c54f80e1194565202efc4f2"


@pytest.fixture(scope="module")
def data():
    return sample()


def test_sample_is_pinned_to_the_byte(data):
    assert data.fingerprint == SAMPLE_FINGERPRINT
    everything = [[p.to_dict() for p in data.corpus], [dict(e) for s in SPLITS for e in data.splits[s]]]
    assert hashlib.sha256(json.dumps(everything, ensure_ascii=False).encode()).hexdigest() == SAMPLE_BYTES


def test_sample_has_the_promised_size_and_mix(data):
    assert 900 <= len(data.corpus) <= 1100
    for split in SPLITS:
        assert Counter(e.type for e in data.splits[split]) == MIX
        closed = Counter(e.answer for e in data.splits[split] if e.type == "yes_no")
        assert abs(closed["yes"] - closed["no"]) <= 1


def test_ids_and_questions_are_unique(data):
    every = [e for s in SPLITS for e in data.splits[s]]
    assert len({e.id for e in every}) == len({e.question for e in every}) == len(every) == 300
    assert len({p.id for p in data.corpus}) == len({p.text for p in data.corpus}) == len(data.corpus)


def test_splits_share_no_entity(data):
    # Every name of an entity carries a coined word of its world; collect the coined words that each split's
    # questions, answers and gold passages contain.
    own = [{p.id for p in write_articles(build_world(n))} for n in range(3)]
    for place, split in enumerate(SPLITS):
        used = {g for e in data.splits[split] for g in e.gold_ids}
        assert used <= own[place]
        assert not any(used & own[other] for other in range(3) if other != place)
    names = [{entity.name for entity in build_world(n).all()} for n in range(3)]
    for left, right in itertools.combinations(names, 2):
        assert not left & right


def test_gold_passages_exist_and_hold_the_answer(data):
    texts = {p.id: str(p) for p in data.corpus}
    for example in (e for s in SPLITS for e in data.splits[s]):
        assert example.gold_ids
        gold = [texts[g] for g in example.gold_ids]
        if example.type not in ("yes_no", "unanswerable"):
            said = [*gold, example.question] if "comparison" in example.type else gold
            assert any(example.answer in text for text in said), example
        for step in example.decomposition:
            assert any(step["answer"] in text for text in gold), example


def test_what_is_unanswerable_is_nowhere_said():
    for number in range(3):
        world = build_world(number)
        texts = {p.id: p.text for p in write_articles(world)}
        for entity in world.all():
            for relation in ("birth_place", "death_place", "alma_mater", "founder", "star", "mayor"):
                fact = entity.facts.get(relation)
                if fact and not fact.stated:
                    wordings = [
                        *(w for w in HERE[entity.kind][relation]),
                        *(w for w in THERE.get((entity.kind, relation), [])),
                    ]
                    assert wordings
                    value = fact.value.name
                    others = {f.value for r, f in entity.facts.items() if r != relation and f.stated}
                    back = {f.value for f in fact.value.facts.values() if f.stated}
                    if fact.value not in others and entity not in back:
                        assert value not in texts[entity.title]
                        assert entity.name not in texts[fact.value.title]


def test_every_type_of_hop_is_there(data):
    hops = Counter(len(e.decomposition) for e in data.splits["test"] if e.type == "compositional")
    assert set(hops) == {2, 3, 4}
    for example in data.splits["test"]:
        assert len(example.evidences) == len(example.decomposition)
        if example.type == "ambiguous":
            assert len(example.gold_ids) == 2
            assert example.decomposition[1]["answer"] in example.aliases
        if example.type == "unanswerable":
            assert (example.answer, example.evidences) == ("unanswerable", [])


def test_some_facts_stand_only_in_the_other_article():
    world = build_world(0)
    facts = [f for e in world.all() for f in e.facts.values() if f.stated]
    assert sum(not f.here for f in facts) > 50
    assert sum(f.here and f.there for f in facts) > 50


def test_every_relation_has_several_wordings():
    for kind, relations in HERE.items():
        assert len(LEADS[kind]) >= 4
        assert len(NOISE[kind]) >= 4
        for wordings in relations.values():
            assert len(set(wordings)) >= 4
    assert all(len(set(wordings)) >= 4 for wordings in THERE.values())
    assert set(OF) <= set(ASK)
    assert {relation for pair in KIN.values() for relation in pair} <= HERE["person"].keys()


def test_other_seeds_give_other_whole_samples(data):
    for seed in (1, 2, 3):
        other = fictional(seed=seed)
        assert other.fingerprint != data.fingerprint
        assert all(Counter(e.type for e in other.splits[s]) == MIX for s in SPLITS)


def test_changing_an_example_does_not_reach_the_next_caller():
    first = sample().splits["test"][0]
    first.answer = "spoilt"
    first.aliases.append("spoilt")
    again = sample().splits["test"][0]
    assert "spoilt" not in [again.answer, *again.aliases]
    assert dict(again.inputs()) == {"question": again.question}


def test_larger_encyclopedias():
    data = fictional(2000, questions=100)
    assert len(data.corpus) >= 2000
    assert [len(data.splits[s]) for s in SPLITS] == [34, 33, 33]
    assert load_dataset("fictional:2000").fingerprint == fictional(2000).fingerprint
    with pytest.raises(ValueOutOfBounds, match="passages 0"):
        fictional(0)


def test_stream_is_unique_and_a_longer_one_begins_with_the_shorter():
    long = list(stream_passages(5000, seed=3))
    assert len({p.id for p in long}) == 5000
    assert list(stream_passages(700, seed=3)) == long[:700]
    assert list(stream_passages(0)) == []


def test_stream_of_questions_is_answered_by_the_stream_of_passages():
    ids = {p.id for p in stream_passages(1000)}
    questions = list(stream_questions(250))
    assert len({e.id for e in questions}) == len(questions) == 250
    assert all(set(e.gold_ids) <= ids for e in questions)


def test_coined_names_never_meet():
    names = [coin(kind, number) for kind in ENDINGS for number in range(3000)]
    assert len(set(names)) == len(names)
    far = [coin("surname", number) for number in range(1_000_000, 1_003_000)]
    assert not set(far) & set(names)
    endings = [ending for kind in ENDINGS.values() for ending in kind]
    assert len(set(endings)) == len(endings)
    assert not any(left != right and left.endswith(right) for left in endings for right in endings)


def test_dice_follow_their_seed():
    assert Dice(7).shuffled(range(20)) == Dice(7).shuffled(range(20)) != list(range(20))
    assert sorted(Dice(1).shuffled(range(20))) == list(range(20))
    assert {Dice(n).between(2, 4) for n in range(60)} == {2, 3, 4}
