"""A folder of thirty files of seven kinds, indexed, searched, changed and indexed again.

Among the files are a PDF of 100 pages and a text of 600,000 words. Each file ends with a fact that is nowhere else;
the fact counts as found if one of the first three passages for the question about it holds it. Then a sentence is put
into the long text, after a tenth of it, and the folder is indexed again. `encoded` counts passages. Texts are
paragraphs of Wikipedia (HotpotQA's, see --data), or without them those of the bundled sample.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from document_files import pdf, sheet, slides, word
from table import Table, data_folder, note, seconds

WORDS = 600_000
DEEDS = (
    *("painted the lighthouse", "repaired the church clock", "founded the chess club", "designed the town hall"),
    *("planted the oldest oak", "sold the salt works", "kept the ferry", "translated the charter", "robbed the bank"),
    *("conducted the brass band", "bought the windmill", "taught at the village school", "mapped the caves"),
    *("brewed the dark beer", "tamed the falcons", "insured the harbour", "measured the glacier", "drained the swamp"),
    *("wrote the anthem", "baked the wedding bread", "guarded the treasury", "invented the tram", "bred the goats"),
    *("nursed the wounded", "printed the newspaper", "carved the altar", "blew the glass", "lost the election"),
    *("won the regatta", "closed the coal mine"),
)
_LINE = 90


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--document-engines", default="bm25,dense", help="which engines index the folder (bm25,dense)")
    group.add_argument("--document-tokens", default="256", help="of a passage, at most; several with commas (256)")
    group.add_argument("--document-words", type=int, help=f"of the longest text ({WORDS:,}; quick 6,000)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Index the folder with each engine."""
    words = options.document_words or (6_000 if options.quick else WORDS)
    rows, changes = [], []
    lengths = [int(length) for length in options.document_tokens.split(",")]
    for engine, tokens in itertools.product(options.document_engines.split(","), lengths):
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
            folder = Path(name)
            facts = write_folder(folder / "documents", data_folder(options), words, pages=10 if options.quick else 100)
            note(f"documents: {engine}, {tokens} tokens")
            row, change = _index(engine, tokens, folder, facts)
            rows.append(row)
            changes.append(change)
    columns = [
        "engine",
        "tokens of a passage",
        "files",
        "documents split",
        "passages",
        "encoded",
        "facts in the first three",
        "time",
    ]
    yield Table(f"A folder with a text of {words:,} words", columns, rows)
    columns = [
        "engine",
        "tokens of a passage",
        "added",
        "removed",
        "kept",
        "encoded",
        "the new sentence is first",
        "time",
    ]
    yield Table("A sentence more in the long text, indexed again", columns, changes)


@contextmanager
def _counting() -> Iterator[Counter[str]]:
    """Count the passages that are encoded during the block."""
    from knowgap.retrieval.colbert.encoder import TokenEncoder
    from knowgap.retrieval.dense import DenseEncoder

    encoded = Counter[str]()
    with ExitStack() as patches:
        for owner in (TokenEncoder, DenseEncoder):

            def encode(encoder: Any, texts: list[str], original: Any = owner.encode_passages) -> Any:
                encoded["passages"] += len(texts)
                return original(encoder, texts)

            patches.enter_context(patch.object(owner, "encode_passages", encode))
        yield encoded


def _index(engine: str, tokens: int, folder: Path, facts: dict[str, tuple[str, str]]) -> tuple[list[Any], list[Any]]:
    """Index the folder, change it and index it again; a row of each table."""
    from knowgap import build_index
    from knowgap.retrieval.documents.reading import Reading

    documents, place = folder / "documents", folder / "index"
    with _counting() as encoded:
        started = time.perf_counter()
        read = Reading()
        index: Any = build_index(documents, place, engine=engine, passage_tokens=tokens, reading=read)
        took = time.perf_counter() - started
    assert not read.problems, read.problems
    found = [
        any(answer in hit.passage.text and hit.passage.id.startswith(f"{name}#") for hit in hits)
        for (name, (_, answer)), hits in zip(
            facts.items(), index.search([question for question, _ in facts.values()], 3), strict=True
        )
    ]
    split = f"{read.split} of {read.documents}"
    row = [engine, tokens, sum(read.kinds.values()), split, f"{len(index):,}", f"{encoded['passages']:,}"]
    row += [f"{sum(found)} of {len(facts)}", seconds(took)]
    long = documents / "long.txt"
    text = long.read_text(encoding="utf-8")
    cut = text.index("\n", len(text) // 10)
    long.write_text(f"{text[:cut]}\nThe bell of Brimholt was cast by Osric Vane.\n{text[cut:]}", encoding="utf-8")
    with _counting() as encoded:
        started = time.perf_counter()
        again = Reading()
        build_index(documents, place, passage_tokens=tokens, reading=again)
        took = time.perf_counter() - started
    update = again.update
    assert update is not None
    from knowgap import open_index

    [[first]] = open_index(place).search(["Who cast the bell of Brimholt?"], 1)
    right = "Osric Vane" in first.passage.text
    change = [engine, tokens, update.added, update.removed, f"{update.kept:,}", encoded["passages"]]
    return row, [*change, "yes" if right else "no", seconds(took)]


def write_folder(folder: Path, data: Path | None, words: int, pages: int) -> dict[str, tuple[str, str]]:
    """Write thirty files; by name, a question and the answer that stands at the end of the file."""
    folder.mkdir(parents=True)
    texts = _paragraphs(data)
    names = _names(random.Random(0))
    facts: dict[str, tuple[str, str]] = {}

    def take(count: int) -> list[str]:
        """Paragraphs of so many words."""
        taken: list[str] = []
        while count > 0:
            taken.append(next(texts))
            count -= len(taken[-1].split())
        return taken

    def write(name: str, make: Callable[[str], bytes]) -> None:
        deed, town, person = DEEDS[len(facts)], next(names), f"{next(names)} {next(names)}"
        facts[name] = f"Who {deed} of {town}?", person
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(make(f"{person} {deed} of {town}."))

    def in_sections(marks: tuple[str, str, str], paragraphs: list[str]) -> str:
        before, after, paragraph = marks
        return "".join(f"{before}Part {n}{after}{paragraph}{text}\n\n" for n, text in enumerate(paragraphs, start=1))

    write("long.txt", lambda fact: "\n\n".join([*take(words), fact]).encode())
    for n in range(5):
        write(f"texts/{n}.txt", lambda fact: "\n\n".join([*take(800), fact]).encode())
        write(f"notes/{n}.md", lambda fact: (in_sections(("## ", "\n\n", ""), take(800)) + fact).encode())
        write(f"pages/{n}.html", lambda fact: (in_sections(("<h2>", "</h2>", "<p>"), take(800)) + fact).encode())
    for n, count in enumerate([pages, 5, 5, 5, 5]):
        write(f"reports/{n}.pdf", lambda fact, count=count: pdf(_pages([*take(400 * count), fact], count)))
    for n in range(3):
        write(f"office/{n}.docx", lambda fact: word([("", _plain(text)) for text in [*take(800), fact]]))
        write(f"office/{n}.pptx", lambda fact: slides([("Slide", text) for text in [*take(800), fact]]))
        write(f"office/{n}.xlsx", lambda fact: sheet("Sheet", [["number", "text"], *enumerate([*take(800), fact])]))
    return facts


def _paragraphs(data: Path | None) -> Iterator[str]:
    """Paragraphs without an end; from the second time on, their sentences stand in another order."""
    from knowgap import load_dataset

    path = data / "train" / "hotpot_corpus.jsonl" if data is not None else None
    if path is not None and path.is_file():
        texts = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
    else:
        texts = [passage.text for passage in load_dataset("sample").corpus]
    texts = [" ".join(text.split()) for text in texts if text.strip()]
    yield from texts
    for seed in itertools.count():
        draw = random.Random(seed)
        for text in texts:
            sentences = text.split(". ")
            draw.shuffle(sentences)
            yield ". ".join(sentences)


def _names(draw: random.Random) -> Iterator[str]:
    """Invented names, each once."""
    seen: set[str] = set()
    while True:
        syllables = draw.choices(
            ["bri", "vol", "tar", "mek", "sun", "dro", "fal", "gri", "hax", "pel", "quo", "zim"], k=3
        )
        name = "".join(syllables).capitalize()
        if name not in seen:
            seen.add(name)
            yield name


def _pages(paragraphs: list[str], count: int) -> list[list[str]]:
    """The lines of pages."""
    lines = []
    for paragraph in paragraphs:
        line = ""
        for each in _plain(paragraph).split():
            if len(line) + len(each) > _LINE:
                lines.append(line)
                line = ""
            line = f"{line} {each}".strip()
        lines.append(line)
    height = -(-len(lines) // count)
    return [lines[start : start + height] for start in range(0, len(lines), height)]


def _plain(text: str) -> str:
    """A text in Latin letters, without what has a meaning in XML."""
    return text.encode("latin-1", "ignore").decode("latin-1").replace("&", "and").replace("<", "(").replace(">", ")")
