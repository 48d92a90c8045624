"""What a simple question asks for: the kind of answer, and the words that a sentence needs to speak of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from knowgap.lms.embedded.questions import names_of
from knowgap.lms.embedded.text import Sentence, analyse, dates, fold, name_words, stems, value_of

_ALIKE = (
    "born birth birthplace birthday native",
    "die died death dead deceased passed killed",
    "found founded founder establish established form formed create created set started began begin inception launched",
    "spouse wife husband marry married wed widow partner",
    "father mother parent parents son daughter child children",
    "write wrote written writer author novelist poet penned",
    "direct directed director",
    "study studied educated attend attended graduate graduated degree university college school alma",
    "inhabitants population people residents live lives",
    "based headquarters seat located belong belongs lies lie situated stands",
    "compose composed composer music score",
    "make makes made maker produce produced producer production",
    "publish published publisher release released came come appeared issued film album novel song book single magazine",
    "star stars starred starring play played plays actor actress cast role",
    "sing sings sang singer vocalist vocals performed performer fronted",
    "length long kilometres km metres miles",
    "flows flow empties empty joins mouth tributary",
    "country nation nationality national citizen citizenship",
    "leader leads head heads chief president chairs runs manager",
    "job work works worked occupation profession career",
    "cost costs price priced paid pay",
)
_SAME = {stem: frozenset(stems(group)) for group in _ALIKE for stem in stems(group)}
_KINDS = {
    "date": r"^when\b|\b(?:what|which) (?:year|date|month|day|decade|century)\b|\bbirthday\b|\bdate of\b",
    "number": r"\bhow (?:many|much|long|tall|high|old|far|big|large|deep|wide|fast)\b|\b(?:population|length) of\b",
    "person": r"^who|\bwhom\b|\b(?:what|which) (?:person|man|woman|actor|actress|singer|director|author|player)\b",
    "place": r"^where\b|\b(?:what|which) (?:city|town|country|village|state|county|place|province|region|island)\b"
    r"|\bnationality\b|\bbirthplace\b|\bplace of\b|\bcapital of\b|\bcountry of\b|\bcity (?:of|in|where)\b",
}
_NO_RELATION = frozenset(
    stems("year date day month city town country place person name many much long film novel song album band")
    + stems("company work come originate home belong lie located situated kind type")
)
_LIVED = re.compile(r"\([^()]*\d{3,4}[^()]*[–-][^()]*\d{3,4}[^()]*\)|\((?:born|b\.) ")
PRONOUNS = frozenset(["he", "his", "him", "she", "her", "hers"])
_PARENT = frozenset(stems("father mother parents"))
_CHILD = frozenset(stems("son daughter children child"))
_NATION = frozenset(stems("nationality citizenship"))
_NATIONAL = re.compile(r"\b(?:is|was|are|were) an? (?:\w+ )?[A-Z]\w+ [a-z]")
_GOES_ON = frozenset(["who", "is", "was", "and", "in", "from", "of", "as", "at", "with", "to", "serves"])
_LIFE = frozenset(stems("born die"))
_DEATH = frozenset(stems("die died death"))
_MALE = frozenset(["father", "husband", "son", "brother", "grandfather", "uncle", "nephew", "king", "he", "his", "him"])
_FEMALE = frozenset(
    ["mother", "wife", "daughter", "sister", "grandmother", "aunt", "niece", "queen", "she", "her", "hers"]
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a simple question asks for.

    Attributes:
        kind: `date`, `number`, `person`, `place` or `other`.
        names: the names in it.
        relation: stems of the other content words: what is asked about the names.
        gender: 1 if a man is asked for, -1 if a woman is, else 0.
        is_where: whether a place other than a country is asked for, so that no adjective is the answer.
        is_code: whether the number or code of something is asked for.
    """

    kind: str
    names: tuple[str, ...]
    relation: frozenset[str]
    gender: int
    is_where: bool
    is_code: bool

    def said(self, sentence: Sentence) -> float:
        """The share of the relation's words that a sentence has, itself or in a word of the same sense."""
        present = (
            sentence.content
            | (_NATION if _NATIONAL.search(sentence.text) else frozenset())
            | (_LIFE if _LIVED.search(sentence.text) else frozenset())
        )
        found = sum(bool(_SAME.get(stem, frozenset([stem])) & present) for stem in self.relation)
        return found / len(self.relation) if self.relation else 1.0

    def named(self, present: frozenset[str]) -> float:
        """The share of the names that a text has whole, or without what stands between their first and last word."""
        found = sum(bool(own := stems(name)) and {own[0], own[-1]} <= present for name in self.names)
        return found / len(self.names) if self.names else 1.0

    def trimmed(self, text: str, sentence: Sentence, known: set[str]) -> str:
        """A span without what is not the answer, and with the rest of a name; empty if it cannot be the answer.

        Args:
            text: the span.
            sentence: where it stands.
            known: stems of the words of the question.
        """
        text = re.sub(r"^(?:(?:in|on|at|by|from|of|to|near|is|was|are|were) )+", "", text.strip(' .,;:"“”'))
        if self.kind == "date" and (found := [text[start:end] for start, end, _ in dates(text)]):
            return found[-1 if self.relation & _DEATH else 0]
        if self.kind == "number":
            text = re.sub(r" (?:long|high|tall|deep|wide|old)$", "", text)
        if self.is_code and (code := re.search(r"\b[A-Z]+[- ]?\d[\w-]*|\b\d[\w-]*", text)):
            return code[0]
        if self.kind in ("person", "place"):
            names = analyse(text).names
            if re.search(r" (?:is|was|had|has) ", text) and all(set(stems(name)) <= known for name in names):
                return ""
            for name in names[::-1]:
                after = re.match(r"\s+(\w+)", text[text.rfind(name) + len(name) :])
                cut = after and (self.kind == "place" or after[1] in _GOES_ON)
                lead = re.search(r"\b[a-z]{2,}\b", text[: text.rfind(name)])
                if (cut or (lead and text.endswith(name))) and not set(stems(name)) <= known:
                    text = name
                    break
        own = set(stems(text))
        name = next((name for name in names_of(sentence.text) if text and text in name), text)
        rest = set(stems(name)) - own
        text = (
            name
            if self.kind != "date" and (rest <= known or self.kind in ("person", "place") or f" {text} " in f" {name} ")
            else text
        )
        is_adjective = (
            re.search(rf"\ban? (?:\w+ )?{re.escape(text)} [a-z]", sentence.text) is not None
        )  # an Italian painter
        if (self.is_where and is_adjective) or (_NATION & self.relation and not (is_adjective or self.said(sentence))):
            return ""
        return text if name_words(text) and not set(stems(text)) <= known else ""

    def fits(self, text: str) -> float:
        """How well a text fits the kind of answer, 0 to 1."""
        is_date = bool(dates(text))
        if self.kind == "date":
            return float(is_date) or 0.5 * bool(re.search(r"\d|century", text))
        if self.kind == "number":
            return float(bool(value_of(text)) and not any(month for _, _, (_, month, _) in dates(text)))
        if self.kind in ("person", "place"):
            return 0.0 if is_date else float(bool(analyse(text).names) or 0.3 * (not self.names))
        return 0.0 if re.match("(?:his|her|its|their) ", text) else 1.0 if text in names_of(text) else 0.5

    def states(self, text: str, sentence: Sentence) -> bool:
        """Whether a sentence says all that is asked of the names in the question, and what it gives is of the kind."""
        placed = re.search(
            rf"(?:\b(?:in|at|of|from|to|near|on|an?|is|was|city|town)\b|[,(]) {re.escape(text)}", sentence.text
        )
        fit = self.fits(text) == 1 and (self.kind != "place" or placed is not None)
        return bool(self.names) and fit and self.said(sentence) == 1

    def is_other_way(self, text: str, sentence: Sentence, gender: int) -> bool:
        """Whether a sentence makes its answer a child where a parent is asked for, or the reverse, or of the other sex.

        Args:
            text: the answer.
            sentence: where it stands.
            gender: of the answer, as other sentences show it; 0 if they do not.
        """
        if self.gender * gender < 0:
            return True
        before = fold(sentence.text[: max(sentence.text.find(text), 0)])
        last = re.findall(r"\w+", before)[-3:]
        if self.gender and {-self.gender} == {gender_of([word]) for word in last if word not in PRONOUNS} - {0}:
            return True
        child = re.search(r"\b(?:son|daughter|child|children)\b( of\b)?[^.;]*$", before)
        return child is not None and bool(self.relation & (_PARENT if not child[1] else _CHILD))


def gender_of(words: Iterable[str]) -> int:
    """1 if more of the words stand for men, -1 if more stand for women, else 0."""
    count = sum((word in _MALE) - (word in _FEMALE) for word in words)
    return (count > 0) - (count < 0)


@lru_cache(maxsize=4_000)
def asked(question: str) -> Asked:
    """Read a simple question."""
    low = fold(question)
    kind = next((kind for kind, pattern in _KINDS.items() if re.search(pattern, low)), "other")
    names = tuple(names_of(question))
    named = {stem for name in names for stem in stems(name)}
    is_where = kind == "place" and not re.search("countr|nation|origin", low)
    gender = gender_of(re.findall(r"\w+", low))
    clause = re.match(r"(?:what|who) (?:is|was) the [a-z ]+? ((?:\w+ )?(?:that|which|who|where) .+)", question, re.I)
    relation = frozenset(stems(clause[1] if clause else question)) - named
    return Asked(
        kind, names, relation - _NO_RELATION, gender, is_where, re.search(r"\b(?:number|code) of ", low) is not None
    )
