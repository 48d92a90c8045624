"""Grounding: what a sentence says that its sources do not."""

import pytest

from knowgap.retrieval.grounding import GroundingEntailment, grounded

BRENNER = "Silver Harbour: Silver Harbour is a 1961 drama film directed by Ida Brenner."

CASES = [  # a sentence, its source, what the source lacks
    ("Ida Brenner directed Silver Harbour in 1961.", BRENNER, []),
    ("Silver Harbour was directed by Tom Hale in 1975.", BRENNER, ["1975", "Tom Hale"]),
    ("Obama won the election.", "Barack Obama won the 2008 election.", []),
    ("The speech of Michelle Obama was praised.", "Barack Obama held a speech that was praised.", ["Michelle Obama"]),
    ("The town has 1,800 inhabitants.", "The town counts 1800 inhabitants.", []),
    ("She ruled from 1961 to 1973.", "Her rule (1961–73) was calm.", []),
    ("She ruled 1961–74.", "Her rule lasted from 1961 to 1973.", ["74"]),
    ("He was born on March 5, 2019.", "Born: 2019-03-05", []),
    ("He was born on 05.03.2019.", "He was born on 5 March 2019", []),
    ("He was born on April 5, 2019.", "He was born on 5 March 2019", ["April"]),
    ("He studied under J. R. R. Tolkien.", "He was a student of John Ronald Reuel Tolkien.", []),
    ("It is Brenner's third film about Wick.", "Ida Brenner made her 3rd film on Wick.", []),
    ("The town has 1,900 inhabitants.", "The town counts 1800 inhabitants.", ["1,900"]),
    ("The company earned $2.5 million.", "The company earned 1,512,000 dollars.", ["2.5 million"]),
    ("The company earned $1.5 million.", "The company earned 1,512,000 dollars.", []),
    ("It was popular in the 1970s.", "It was popular in 1984.", ["1970s"]),
    ("It was built in the nineteenth century.", "It was built in 1884.", []),
    ("It was built in the 18th century.", "It was built in 1884.", ["18th century"]),
    ("The bridge has four arches.", "The bridge has three arches.", ["four"]),
    ("One of the two was a teacher.", "Ida was a teacher, Bo a smith.", []),
    ("Der Leuchtturm von Tarn wurde 1885 gebaut.", "Tarn: Der Bau des Leuchtturms von Tarn begann 1884.", ["1885"]),
    ("Der Verein hat 3 Mitglieder im Vorstand.", "Dem Vorstand des Vereins gehören drei Mitglieder an.", []),
    ("Der Umsatz betrug 2,5 Millionen Euro.", "Der Umsatz lag bei 2,5 Mio. Euro.", []),
    (
        "Le pont de Tarn a été construit en 1884 par Luc Petit.",
        "Elie Moreau fit construire le pont de Tarn en 1884.",
        ["Luc Petit"],
    ),
    ("タルン橋は1885年に建設された。", "タルン橋: 1884年に完成した橋で、タルンにある。建設は二年かかった。", ["1885"]),
    ("この町の人口は3万人です。", "町の人口は30000人である。", []),
    ("The Gull was nicknamed after a ship.", "The ship gave her the nickname The Gull.", []),
    ("Citing McDonald, the report names Wick.", "The report names Wick.", ["McDonald"]),
    ("Der Film wurde 1962 von Ida Brenner gedreht.", BRENNER, ["1962"]),
    ("この映画は1961年に公開された。", BRENNER, []),
    ("이 영화는 1962년에 개봉했다.", "영화: 1961년 개봉작.", ["1962"]),
    ("It says so [1].", "It says so.", []),
    ("He has three and four.", "He has four, and three.", []),
    ("It has two hundred and five rooms.", "It has 205 rooms.", []),
    ("It was the twenty-fifth.", "It was the 25th.", []),
    ("It was shown on CBS.", "It was shown at 00:01.", ["CBS"]),
    ("The pump KX-78 needs 230 V.", "KX-77: a pump for 230 volts.", ["78"]),
]


@pytest.mark.parametrize(("sentence", "source", "absent"), CASES, ids=[case[0][:40] for case in CASES])
def test_what_a_sentence_has_that_its_source_lacks(sentence, source, absent):
    found = grounded(sentence, [source])
    assert found.absent == tuple(absent)
    if not absent:
        assert found.holds
    assert 0 <= found.share <= 1
    itself = grounded(source, [source])
    assert (itself.absent, itself.share) == ((), 1.0)


def test_another_subject_shares_few_words():
    found = grounded("Rivers rise in the hills and flow to the sea.", [BRENNER])
    assert (found.absent, found.share, found.holds) == ((), 0.0, False)
    assert grounded("Rivers rise in 1961.", []).absent == ("1961",)
    assert not grounded("hundred " * 160, [BRENNER]).holds


def test_the_rule_as_an_entailment_model_finds_nothing_in_a_blank():
    pairs = [(BRENNER, "Tom Hale directed it."), ("", "It is."), (BRENNER, "")]
    assert GroundingEntailment().entails(pairs) == [0.0, 0.0, 0.0]
