"""The generator of the sample."""

import re
from itertools import pairwise

import pytest
from fictional.articles import show, write_articles
from fictional.question_wordings import QUESTIONS, RELATION_NAMES
from fictional.questions import ask_questions
from fictional.world import WORLDS_PER_SEED, Entity, World
from write_sample import SAMPLE, write_dataset

CHECKED = range(WORLDS_PER_SEED)


def test_the_sample_files_are_what_the_generator_writes(tmp_path):
    write_dataset(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in SAMPLE.iterdir()}


def test_worlds_repeat_no_id_and_name_passages_that_are_there():
    passages = [passage for number in range(6) for passage in write_articles(World(number))]
    assert len({p.id for p in passages}) == len(passages)
    questions = [example for number in range(6) for example in ask_questions(World(number))]
    assert len({e.id for e in questions}) == len(questions) == 600
    assert {id for e in questions for id in e.gold_ids} <= {p.id for p in passages}


@pytest.fixture(scope="module", params=CHECKED)
def asked(request):
    world = World(request.param)
    return world, {p.id: p.text for p in write_articles(world)}, ask_questions(world)


def test_each_answer_follows_from_the_world(asked):
    world, _, questions = asked
    for example in questions:
        facts = [_fact(world, *evidence) for evidence in example.evidences]
        if example.type in ("comparison", "yes_no"):
            (first, lead), (_, one), (second, other_lead), (_, other) = [(e, e.facts[r].value) for e, r in facts]
            assert facts[1][0] is lead
            assert facts[3][0] is other_lead
            right = ["yes", "no"][one is not other]
            if example.type == "comparison":
                right = max((one, first.name), (other, second.name))[1]
            assert example.answer == right, example
            assert {entity.name for entity in _named(world, example.question)} == {first.name, second.name}
            continue
        for (entity, relation), (following, _) in pairwise(facts):
            assert following in (entity, entity.facts[relation].value), example
        if example.type != "unanswerable":
            entity, relation = facts[-1]
            assert example.answer == show(entity, relation)


def test_an_unanswerable_question_asks_for_what_no_article_states(asked):
    world, texts, questions = asked
    for example in questions:
        if example.type != "unanswerable":
            continue
        [entity] = [e for e in world.all() if e.title == example.gold_ids[-1]]
        patterns = {
            r: re.escape(three[world.number]).replace(re.escape("{x}"), ".+")
            for (kind, r), three in QUESTIONS.items()
            if kind == entity.kind
        }
        [relation] = [r for r, pattern in patterns.items() if re.fullmatch(pattern, example.question, re.I)]
        assert example.answer == "unanswerable"
        assert not entity.facts[relation].stated
        assert show(entity, relation) not in texts[entity.title] or isinstance(entity.facts[relation].value, Entity)
        steps = [_fact(world, *evidence) for evidence in example.evidences]
        assert not steps or steps[-1][0].facts[steps[-1][1]].value is entity


def test_the_words_of_a_question_name_no_passage_after_the_first(asked):
    world, texts, questions = asked
    for example in questions:
        firsts = {"comparison": 2, "yes_no": 2}.get(example.type, 1)
        names = {entity.name for entity in _named(world, example.question)}
        led_to = {title for title in example.gold_ids if any(name in f"{title} {texts[title]}" for name in names)}
        assert len(led_to) <= firsts, example
        if example.type != "unanswerable":
            assert len(set(example.gold_ids)) > firsts, example


def _fact(world, title, name, value):
    """The entity and relation of an evidence triple, which must be stated."""
    [entity] = [e for e in world.all() if e.title == title]
    [relation] = [r for r in entity.facts if RELATION_NAMES.get(r, r) == name]
    assert entity.facts[relation].stated
    assert show(entity, relation) == value
    return entity, relation


def _named(world, question):
    """The entities whose name is in the question, without those whose name is a part of a longer one there."""
    found = [e for e in world.all() if re.search(rf"(?<!\w){re.escape(e.name)}(?!\w)", question)]
    return [e for e in found if not any(e.name != other.name and e.name in other.name for other in found)]
