// An answer with its citations and sources.

const SOURCES_SHOWN = 6; // others are folded

// The sources of an answer, or the nearest passages without numbers, each with the text of its passage.
function sourcesOf(answer) {
  const texts = new Map(answer.passages.map(passage => [passage.id, passage.text]));
  return [...answer.sources, ...answer.nearest ?? []].map(source => ({ ...source, text: texts.get(source.passage_id) }));
}

// The answer cut into pieces: {text, numbers}, where numbers are those of the sources that a piece rests on. Statements
// that no passage supports are pieces of their own, and `doubted`.
function pieces(answer, sources) {
  const text = answer.cited_answer;
  const byNumber = new Set(sources.map(source => source.number));
  const doubted = answer.citations.filter(citation => !citation.supported).map(citation => citation.statement);
  const found = [];
  let from = 0;
  const cutTo = (end, numbers) => {
    while (doubted.length) {
      const place = text.indexOf(doubted[0], from);
      if (place >= 0 && place + doubted[0].length > end) break;
      const statement = doubted.shift();
      if (place < 0) continue;
      if (place > from) found.push({ text: text.slice(from, place), numbers: [] });
      found.push({ text: statement, numbers: [], doubted: true });
      from = place + statement.length;
    }
    if (from < end) found.push({ text: text.slice(from, end), numbers });
  };
  for (const match of text.matchAll(/((?:\s*\[\d+\])+)/g)) {
    const numbers = [...match[0].matchAll(/\d+/g)].map(number => Number(number[0])).filter(number => byNumber.has(number));
    if (!numbers.length) continue;
    cutTo(match.index, numbers);
    from = match.index + match[0].length;
  }
  cutTo(text.length, []);
  return found;
}

function citeLink(number, key) {
  return make("a", { class: "cite", href: "#" + key + "-s" + number, text: number, "aria-label": "Source " + number,
    on: { click: event => { event.preventDefault(); showSource(key + "-s" + number); } } });
}

function showSource(id) {
  const source = at(id);
  const folded = source.closest("details.more");
  if (folded) folded.open = true;
  source.open = true;
  for (const lit of document.querySelectorAll(".source.lit")) lit.classList.remove("lit");
  source.classList.add("lit");
  source.scrollIntoView({ block: "nearest", behavior: "smooth" });
  source.querySelector("summary").focus({ preventScroll: true });
}

function answerText(answer, sources, key) {
  const refused = answer.supported === false, known = refused || answer.answered;
  const text = known ? answer.answer : "Your documents do not say this.";
  const box = make("div", { class: "answer" + (refused ? " refused" : known && text.length < 80 ? " brief" : "") });
  let paragraph = make("div", { class: "part" });
  for (const piece of known ? pieces(answer, sources) : [{ text, numbers: [] }]) {
    piece.text.split(/\n{2,}/).forEach((part, place) => {
      if (place) { box.append(paragraph); paragraph = make("div", { class: "part" }); }
      if (part) paragraph.append(...piece.doubted ? [make("span", { class: "doubt", text: part })] : withTables(part));
    });
    paragraph.append(...piece.numbers.map(number => citeLink(number, key)));
  }
  box.append(paragraph);
  if (refused && answer.guess && answer.guess === answer.answer) box.append(make("p", { class: "note", text: "This is a guess: your documents do not say this." + (answer.missing ? " Missing: " + answer.missing : "") }));
  const doubted = answer.citations.filter(citation => !citation.supported);
  if (doubted.length) {
    const all = doubted.length === answer.citations.length;
    const absent = [...new Set(doubted.flatMap(citation => citation.absent ?? []))].join(", ");
    if (absent) box.append(make("p", { class: "note", text: (sources.length === 1 ? "[1] does not mention " : "No passage that was read mentions ") + absent + "." }));
    if (doubted.some(citation => !citation.absent?.length)) box.append(make("p", { class: "note", text: all ? "No passage that was read says this: check it before you rely on it."
      : count(doubted.length, "statement", "statements") + " that no passage supports: underlined with dots." }));
  }
  return box;
}

function sourceCard(source, key) {
  const place = [source.file, source.position].filter(Boolean);
  const quote = source.sentence || source.text;
  const whole = make("div", { class: "whole" });
  const words = (source.sentence ?? "").split(" ").map(word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const matched = source.sentence ? source.text.match(new RegExp(words.join("\\s+"))) : null;
  const found = matched && source.text[source.text.lastIndexOf("\n", matched.index) + 1] !== "|" ? matched : null; // a row stays whole
  if (!found) whole.append(...withTables(source.text || quote));
  else {
    const end = found.index + found[0].length;
    whole.append(...withTables(source.text.slice(0, found.index)), make("mark", { text: found[0] }), ...withTables(source.text.slice(end)));
  }
  return make("li", {}, make("details", { class: "source", id: source.number ? key + "-s" + source.number : null },
    make("summary", {},
      source.number ? make("span", { class: "number", text: source.number }) : null,
      make("span", { class: "name", text: source.title }),
      place.length ? make("span", { class: "place", text: [...new Set(place)].join(" · ") }) : null,
      quote ? make("span", { class: "quote", text: quote }) : null),
    whole));
}

function sourceList(answer, sources, key) {
  if (!sources.length) return null;
  const cited = new Set(pieces(answer, sources).flatMap(piece => piece.numbers));
  const first = sources.filter(source => cited.has(source.number)).slice(0, SOURCES_SHOWN), others = sources.filter(source => !first.includes(source));
  const list = some => make("ul", {}, ...some.map(source => sourceCard(source, key)));
  return make("aside", { class: "sources", "aria-label": "Sources: " + answer.question },
    make("p", { class: "label", text: first.length ? "Sources" : answer.supported === false ? "Nearest passages" : "Read for the answer" }),
    first.length ? list(first) : null,
    others.length && first.length
      ? make("details", { class: "more" }, make("summary", {}, icon("fold", "fold"), count(others.length, "more passage was", "more passages were") + " read"), list(others))
      : others.length ? list(others) : null);
}

// How the answer was found: the rounds of the search.
function storyBox(story) {
  if (!story.length) return null;
  const row = (name, kind, text) => text ? [make("dt", { text: name }), make("dd", { class: kind, text })] : [];
  const rounds = story.map((round, place) => make("li", { class: "round" },
    make("span", { class: "step", text: place + 1, "aria-label": "Round " + (place + 1), role: "img" }),
    make("dl", {}, ...row("Looked for", null, round.queries.join("; ")), ...row("Found", null, round.found.join(", ") || "nothing"),
      ...row("Missing", "lack", round.missing))));
  const searches = story.reduce((sum, round) => sum + round.queries.length, 0);
  return make("details", { class: "story" },
    make("summary", {}, icon("fold", "fold"), "How this was found", make("span", { class: "small",
      text: count(story.length, "round", "rounds") + " · " + count(searches, "search", "searches") })),
    make("div", { class: "inside" }, make("ol", {}, ...rounds)));
}
