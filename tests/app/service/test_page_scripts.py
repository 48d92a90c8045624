"""What the scripts of the page make of answers, steps and events; run by Node, where there is one."""

import json
import shutil
import subprocess
from importlib.resources import files

import pytest

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")
SCRIPTS = files("knowgap.service") / "templates"


def run(script, *names):
    """What an expression of JavaScript is worth after these scripts, whose elements are none."""
    source = "".join((SCRIPTS / name).read_text(encoding="utf-8") for name in names)
    code = f"{source}\n(async () => console.log(JSON.stringify(await ({script}))))()"
    return json.loads(subprocess.run([NODE, "-e", code], capture_output=True, text=True, check=True, timeout=30).stdout)


def pieces(cited, *citations):
    answer = {"cited_answer": cited, "passages": PASSAGES, "sources": SOURCES, "citations": citations}
    script = f"(() => {{ const answer = {json.dumps(answer)}; return pieces(answer, sourcesOf(answer)); }})()"
    return [(piece["text"], piece["numbers"]) for piece in run(script, "store.js", "answer.js")]


PASSAGES = [{"id": "a", "title": "A", "text": "…"}, {"id": "b", "title": "", "text": "…"}]
SOURCES = [{"number": 1, "title": "A", "passage_id": "a"}, {"number": 2, "title": "b", "passage_id": "b"}]


def test_numbers_in_the_answer_become_citations_if_they_are_those_of_sources():
    assert pieces("One [1][2]. Two [7]. Three [2]!") == [("One", [1, 2]), (". Two [7]. Three", [2]), ("!", [])]


def test_statements_that_no_passage_supports_are_pieces_of_their_own():
    doubted = [{"statement": text, "supported": False} for text in ("It is.", "It was.", "Not there.")]
    assert pieces("It is. It was.", *doubted) == [("It is.", []), (" ", []), ("It was.", [])]
    assert pieces("") == []
    mixed = [{"statement": text, "supported": text == "It is."} for text in ("It is.", "It was.", "It will be.")]
    cut = [("It is", [1]), (". ", []), ("It was.", []), (" It can be", [2]), (". ", []), ("It will be.", [])]
    assert pieces("It is [1]. It was. It can be [2]. It will be.", *mixed) == cut


def test_events_are_read_however_they_are_cut():
    script = """(async () => {
      const sent = ': alive\\n\\nevent: step\\ndata: {"a":"ü"}\\n\\nevent: answer\\ndata: {}\\n\\n';
      const start = to => {
        for (const byte of new TextEncoder().encode(sent)) to.enqueue(Uint8Array.of(byte));
        to.close();
      };
      const body = new ReadableStream({ start });
      const events = [];
      for await (const event of readEvents(body)) events.push(event);
      return events;
    })()"""
    assert run(script, "store.js") == [["step", {"a": "ü"}], ["answer", {}]]


def test_tables_of_markdown_are_tables():
    made = """
      const inside = node => node.children.map(text).join(" ") + node.text;
      const text = node => typeof node === "string" ? node : node.tag + "(" + inside(node) + ")";
      const make = (tag, { text = "" }, ...children) => ({ tag, text, children: children.filter(Boolean) });
    """
    source = (SCRIPTS / "store.js").read_text(encoding="utf-8")
    reading = "function withTables" + source.partition("function withTables")[2].partition("\n}\n")[0] + "\n}\n"
    table = "Before\n| Town | River |\n|---|---|\n| Tarn | Isk \\| Orle |\nAfter | it."
    script = f"(() => {{ {made} {reading} return withTables({json.dumps(table)}).map(text); }})()"
    head, row = "thead(tr(th(Town) th(River)))", "tbody(tr(td(Tarn) td(Isk | Orle)))"
    assert run(script) == ["Before\n", f"div(table({head} {row}))", "After | it."]


def test_the_scripts_are_valid(tmp_path):
    names = ["store.js", "answer.js", "page.js"]
    whole = tmp_path / "page.js"
    whole.write_text('"use strict";\n' + "".join((SCRIPTS / name).read_text(encoding="utf-8") for name in names))
    assert subprocess.run([NODE, "--check", whole], capture_output=True, timeout=30).returncode == 0
