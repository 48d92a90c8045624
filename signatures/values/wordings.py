"""Words in which language models state a yes, a no, nothing, a number or a degree, in several languages."""

__all__ = ["DEGREES", "NO", "NOTHING", "NUMERALS", "YES"]

_NOTHING_WORDS = """
none n/a na nil null nothing empty unavailable
ninguno ninguna nada keine keiner nichts aucun aucune rien nessuno nessuna niente nenhum nenhuma nic geen
无 なし 없음 нет
"""
NOTHING = frozenset(_NOTHING_WORDS.split()) | {
    "not applicable",
    "not available",
    "not needed",
    "none needed",
    "nothing missing",
    "nothing is missing",
    "not yet",
    "not known yet",
}

_YES_WORDS = """
yes yeah yep y true t correct right 1 sí si sim ja oui da tak evet igen kyllä ναι да так
نعم כן हाँ हां はい 是 是的 对 有 예 네 wahr vrai verdadero verdadeiro vero
"""
_NO_WORDS = """
no nope n false f incorrect wrong 0 nein non não nao nej nee nei nie hayır nem ei όχι нет ні
لا לא नहीं いいえ 否 不 不是 没有 아니요 아니오 falsch faux falso
"""
YES, NO = frozenset(_YES_WORDS.split()), frozenset(_NO_WORDS.split())
DEGREES = {
    "almost certain": 0.95, "nearly certain": 0.95, "very unlikely": 0.1, "highly unlikely": 0.1,
    "very low": 0.1, "very high": 0.9, "very likely": 0.9, "highly likely": 0.9, "very confident": 0.9,
    "highly confident": 0.9, "very sure": 0.95, "unlikely": 0.25, "improbable": 0.25, "unsure": 0.25,
    "uncertain": 0.25, "doubtful": 0.25, "impossible": 0.0, "guess": 0.0, "low": 0.25, "certain": 1.0,
    "certainly": 1.0, "definitely": 1.0, "definite": 1.0, "sure": 1.0, "high": 0.75, "likely": 0.75,
    "probable": 0.75, "probably": 0.75, "confident": 0.75, "medium": 0.5, "moderate": 0.5, "moderately": 0.5,
    "fair": 0.5, "possible": 0.5, "possibly": 0.5, "maybe": 0.5, "perhaps": 0.5,
    "hoch": 0.75, "mittel": 0.5, "niedrig": 0.25, "alta": 0.75, "alto": 0.75, "media": 0.5, "baja": 0.25,
    "haute": 0.75, "élevée": 0.75, "moyenne": 0.5, "faible": 0.25,
}  # fmt: skip
"""Fractions of a scale, by the words for them."""
_NUMERAL_WORDS = "zero one two three four five six seven eight nine ten"
NUMERALS = {word: number for number, word in enumerate(_NUMERAL_WORDS.split())}
