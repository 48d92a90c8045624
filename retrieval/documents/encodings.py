"""The encoding of a text file: Unicode, or the legacy encoding in which it reads as words of a language."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from knowgap.retrieval.documents.text import Unreadable, without_private

BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
BOMS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_GUESSED_FROM = 1 << 16  # bytes
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_PICTURE = re.compile(
    r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,[\w+/=%-]{8,}(?:\s{1,8}[\w+/=%-]{60,})*|data:image/[^)\s\"'>]*"
)

_KANA = frozenset(map(chr, [*range(0x3041, 0x30FF), 0x3001, 0x3002]))
_LANGUAGES = (
    ("cp1252", "àâçéèêëîïôùûœæ«»", "le la les des et est une dans pour que qui sur pas du au"),
    ("cp1252", "äöüß", "der die das und ist nicht ein eine mit von den zu auf im für"),
    ("cp1252", "àèéìòù", "il lo la gli che di per con una del della nel sono alla non"),
    ("cp1252", "áéíóúñü¿¡", "el la los las que de en por con una del para es se no"),
    ("cp1252", "áâãàçéêíóôõú", "o os as que de em para com uma do da no na por se"),
    ("cp1252", "åäöæøé", "och att det som en av den med for til ikke er og har inte"),
    ("cp1250", "ąćęłńóśźż", "w z na do nie jest to po od przez jak za dla oraz przy"),
    ("cp1250", "áčďéěíňóřšťúůýž", "a v na se je do za od pro ve jako nebo jsou podle byl"),
    ("cp1250", "áéíóöőúüű", "a az egy meg nem van volt hogy is de ez el ki kell lehet"),
    ("cp1250", "čćđšž", "i u na je se da za od su iz kao ili po nije bio"),
    ("cp1254", "çğıöşüİ", "ve bir bu da de ile olarak daha kadar sonra gibi olan en var ne"),
    ("cp1257", "āčēģīķļņšūžąęėįų", "un ir no ar par ka kas uz ir buvo tai iki nuo yra"),
    ("cp1255", "אבגדהוזחטיךכלםמןנסעףפץצקרשת", ""),
    ("cp1251", "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґ", ""),
    ("koi8_r", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", ""),
    ("cp866", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", ""),
    ("cp1253", "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώ", ""),
    ("cp1256", "ابتثجحخدذرزسشصضطظعغفقكلمنهويىةأإآئؤء،", ""),
    ("cp874", "กขคงจชซดตถทธนบปผฝพฟมยรลวศสหอะาำิีึืุูเแโใไั่้์็", ""),
)
"""A legacy encoding, the letters beyond ASCII of a language that is written in it, and its commonest words in ASCII.

Of scripts with two cases there are the small letters alone: one Cyrillic encoding read as another one turns these into
capitals.
"""


@lru_cache(maxsize=1)
def _languages() -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """`_LANGUAGES`, and those of East Asia: the syllables of Japanese, the common characters of Korean and Chinese."""

    def common(encoding: str, last: int) -> frozenset[str]:
        rows = (bytes([row, column]) for row in range(0xA1, last + 1) for column in range(0x40, 0xFF))
        return frozenset("".join(pair.decode(encoding, "ignore") for pair in rows))

    found = [(encoding, frozenset(letters), frozenset(words.split())) for encoding, letters, words in _LANGUAGES]
    found += [(encoding, _KANA, frozenset()) for encoding in ("cp932", "euc_jp")]
    korean, simplified, traditional = common("euc_kr", 0xC8), common("gb2312", 0xD7), common("big5", 0xC6)
    return [
        *found,
        ("cp949", korean, frozenset()),
        ("gb18030", simplified, frozenset()),
        ("big5", traditional, frozenset()),
    ]


def decode(content: bytes) -> tuple[str, list[str]]:
    """The text of a file without pictures and private-use characters, and notes about how it was read.

    Raises:
        Unreadable: it is not text.
    """
    if content.startswith(b"%PDF-"):
        raise Unreadable("holds a PDF file, but its name does not end in .pdf")
    encoding, notes = next((name for mark, name in BOMS.items() if content.startswith(mark)), "utf-8"), []
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if b"\0" in content:
            raise Unreadable("is not text") from None
        encoding = guess(content[:_GUESSED_FROM])
        text = content.decode(encoding, "replace")
        notes.append(f"is not UTF-8; read as {encoding}")
    if "\0" in text or len(_CONTROLS.findall(text)) > len(text) / 100 or text.count("\ufffd") > len(text) / 100:
        raise Unreadable("is not text")
    text, pictures = _PICTURE.subn("", text)
    if pictures:
        notes.append(f"{pictures} {'picture' if pictures == 1 else 'pictures'} within the text left out")
    return without_private(text), notes


def guess(content: bytes) -> str:
    """The legacy encoding in which bytes read most like words of a language.

    For each language, that is the share of the characters beyond ASCII that are its letters, and the share of the words
    in ASCII that are its own. Of equals, the first in the table wins.
    """
    words = re.findall(rb"(?<![\w\x80-\xff])[a-z]+(?![\w\x80-\xff])", content.lower())
    best, found = 0.0, "cp1252"
    for encoding, letters, common in _languages():
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            if error.start < len(content) - 4:  # the end may be within a character
                continue
            text = content[: error.start].decode(encoding)
        beyond = [character for character in text if character > "\x7f" and character not in "‘’“”„–—…·°§\xa0€"]
        own = sum(character in letters for character in beyond)
        upper = sum(character.lower() in letters for character in beyond)
        spoken = sum(word.decode() in common for word in words) / max(len(words), 1)
        own *= 2 if letters is _KANA else 1  # every other character or so is one of China's
        score = min((own + 0.5 * (upper - own)) / max(len(beyond), 1), 1.0) + spoken
        if score > best + 1e-9:
            best, found = score, encoding
    return found
