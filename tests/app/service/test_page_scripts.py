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
    code = f'"use strict";\n{source}\n(async () => console.log(JSON.stringify(await ({script}))))()'
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
      const make = (tag, { text = "", tabindex = "" }, ...children) =>
        ({ tag: tag + tabindex, text, children: children.filter(Boolean) });
    """
    source = (SCRIPTS / "store.js").read_text(encoding="utf-8")
    reading = "function withTables" + source.partition("function withTables")[2].partition("\n}\n")[0] + "\n}\n"
    table = "Before\n| Town | River |\n|---|---|\n| Tarn | Isk \\| Orle |\nAfter | it."
    script = f"(() => {{ {made} {reading} return withTables({json.dumps(table)}).map(text); }})()"
    head, row = "thead(tr(th(Town) th(River)))", "tbody(tr(td(Tarn) td(Isk | Orle)))"
    assert run(script) == ["Before\n", f"div0(table({head} {row}))", "After | it."]
    for text in ("|The valve is red.|", "| x | no table"):
        assert run(f"(() => {{ {made} {reading} return withTables({json.dumps(text)}).map(text); }})()") == [text]


# Elements that remember their text, children and listeners; whatever else is asked of them does nothing.
BROWSER = """
  const fake = () => {
    const own = Object.assign(() => fake(), { children: [], on: {}, textContent: "", value: "", hidden: false });
    own.append = (...children) => own.children.push(...children);
    own.replaceChildren = (...children) => { own.children = children; };
    own.addEventListener = (event, listener) => { own.on[event] = listener; };
    return new Proxy(own, { get: (of, name) => of[name] ??= fake() });
  };
  const words = node => typeof node === "string" ? node : node.textContent + node.children.map(words).join(" ");
  const elements = {}, stored = {}, opened = [];
  const find = name => elements[name] ??= fake();
  const store = { getItem: name => stored[name] ?? null, setItem: (name, value) => { stored[name] = value; } };
  const pages = { getElementById: find, querySelector: find, createElement: fake, createElementNS: fake };
  const fetched = { healthz: { json: () => ({}) }, documents: { ok: false, status: 500, json: () => ({ error: {} }) } };
  const later = signal => new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  const browser = {
    document: { ...pages, addEventListener() {}, querySelectorAll: () => [] },
    localStorage: store, sessionStorage: store, history: { pushState() {} }, location: { hash: "" },
    matchMedia: fake, addEventListener() {}, fetch: async (path, { signal } = {}) => fetched[path] ?? later(signal),
  };
  for (const [name, value] of Object.entries(browser)) Object.defineProperty(globalThis, name, { value });
"""


def run_page(script):
    """What statements are worth that run on the page in such a browser."""
    source = "".join((SCRIPTS / name).read_text(encoding="utf-8") for name in ("store.js", "answer.js", "page.js"))
    return run(f"(async () => {{ {BROWSER} {source} {script} }})()")


def test_the_question_goes_on_until_its_conversation_is_left():
    script = """
      stored[STORE] = JSON.stringify([{ id: "old", turns: [{ question: "Who?" }] }]);
      ask("Where?");
      const abort = running.abort, states = [], click = event => states.push(abort.signal.aborted);
      const rows = at("history").children.map(row => row.children[0]);
      find(".skip").on.click({ preventDefault: click });
      rows[0].on.click();
      click();
      rows[1].on.click();
      click();
      return [rows.map(words), states, open_.id];
    """
    assert run_page(script) == [["Where?", "Who?"], [False, False, True], "old"]


def test_a_failure_is_not_shown_as_an_index_without_documents():
    said = 'await showDocuments(); return [find("documents-said").textContent, find("documents-list").children.length];'
    told, rows = run_page(said)
    assert ("500" in told, rows) == (True, 0)


@pytest.mark.parametrize(
    ("found", "shown"),
    [(["Isk", "Orle, Isk"], "Isk, Orle"), (["nothing", "Isk"], "Isk"), (["nothing"] * 2, "nothing")],
)
def test_a_step_names_what_all_its_queries_found(found, shown):
    step = {"kind": "retrieved", "queries": ["a", "b"], "text": ["retrieved", *(f"a → {each}" for each in found)]}
    assert run_page(f"return stepLine({json.dumps(step)})[0].split(': ')[1];") == shown


@pytest.mark.parametrize("guess", ["", "9 m"])
def test_only_a_guess_is_called_one(guess):
    answer = {"supported": False, "answer": guess, "guess": guess, "missing": "the height", "citations": []}
    answer |= {"cited_answer": guess or "Your documents do not say this. Missing: the height."}
    text = run_page(f"return words(answerText({json.dumps(answer)}, [], 't0'));")
    assert ("guess" in text, "9 m" in text, text.count("the height")) == (bool(guess), bool(guess), 1)
