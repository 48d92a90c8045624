"""The generator of the sample."""

from fictional import stream_passages, stream_questions, write_dataset
from fictional.articles import write_articles
from fictional.names import ENDINGS, coin
from fictional.world import build_world
from write_sample import SAMPLE

from knowgap.compiling.data import SPLITS, load_dataset


def test_the_sample_files_are_what_the_generator_writes(tmp_path):
    write_dataset(tmp_path, 900)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in SAMPLE.iterdir()}


def test_larger_data_sets_are_read_like_users_own(tmp_path):
    write_dataset(tmp_path / "larger", 1300)
    data = load_dataset(tmp_path / "larger")
    assert data.name == "larger"
    assert len(data.corpus) >= 1300
    assert [len(data.splits[split]) for split in SPLITS] == [200, 100, 100]


def test_a_longer_stream_begins_with_the_shorter_and_repeats_no_id():
    passages = list(stream_passages(5000))
    assert len({p.id for p in passages}) == 5000
    assert list(stream_passages(700)) == passages[:700]
    questions = list(stream_questions(250))
    assert len({e.id for e in questions}) == len(questions) == 250
    assert {id for e in questions for id in e.gold_ids} <= {p.id for p in passages[:1000]}


def test_a_fact_that_is_not_stated_is_in_neither_article():
    checked = 0
    for number in range(3):
        world = build_world(number)
        texts = {p.id: p.text for p in write_articles(world)}
        for entity in world.all():
            for relation in ("birth_place", "death_place", "alma_mater", "founder", "star", "mayor"):
                fact = entity.facts.get(relation)
                if fact is None or fact.stated:
                    continue
                # The two may still be linked by another fact.
                others = {f.value for r, f in entity.facts.items() if r != relation and f.stated}
                back = {f.value for f in fact.value.facts.values() if f.stated}
                if fact.value not in others and entity not in back:
                    checked += 1
                    assert fact.value.name not in texts[entity.title]
                    assert entity.name not in texts[fact.value.title]
    assert checked > 50


def test_coined_names_never_meet():
    numbers = [*range(3000), *range(1_000_000, 1_001_000)]
    names = [coin(kind, number) for kind in ENDINGS for number in numbers]
    assert len(set(names)) == len(names)
    endings = [ending for kind in ENDINGS.values() for ending in kind]
    assert len(set(endings)) == len(endings)
    assert not any(left != right and left.endswith(right) for left in endings for right in endings)
