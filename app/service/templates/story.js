// How the answer was found: the rounds of the search, as a picture and in words.
const FACTS_IN_PICTURE = 12, FACTS_SHOWN = 3;

function draw(tag, attributes, text) {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) drawn.setAttribute(name, value);
  if (text !== undefined) drawn.textContent = text;
  return drawn;
}

// A thread from round to round: above each, a dot for every statement that was learnt; where something was missing, the
// thread is dashed and has a ring. It ends in a tick where the search ended with an answer.
function storyPicture(story, answered, width) {
  const rounds = story.rounds, step = width / (rounds.length + 1), radius = rounds.length > 6 ? 9 : 12;
  const rows = Math.ceil(Math.min(FACTS_IN_PICTURE, Math.max(...rounds.map(round => round.learnt.length))) / 4);
  const base = 22 + 10 * rows + (rounds.some(round => round.learnt.length > FACTS_IN_PICTURE) ? 12 : 0);
  const words = rounds.map(round => "round " + round.number + ": " + count(round.learnt.length, "statement", "statements")
    + (round.still_missing ? ", something missing" : "")).join("; ");
  const picture = draw("svg", { viewBox: "0 0 " + width + " " + (base + 18), class: "picture", role: "img", "aria-label": words });
  rounds.forEach((round, place) => {
    const x = step * (place + .5), next = x + step, facts = Math.min(round.learnt.length, FACTS_IN_PICTURE);
    const open = round.still_missing !== "";
    picture.append(draw("line", { x1: x, x2: next, y1: base, y2: base, class: open ? "open" : "thread" }));
    if (open) {
      const middle = (x + next) / 2;
      picture.append(draw("circle", { cx: middle, cy: base, r: 10, class: "gap" }), draw("text", { x: middle, y: base + 4 }, "?"));
    }
    for (let fact = 0; fact < facts; fact++) {
      picture.append(draw("circle", { cx: x + (fact % 4 - (Math.min(facts, 4) - 1) / 2) * 10, cy: base - radius - 11 - Math.floor(fact / 4) * 10, r: 3.5, class: "fact" }));
    }
    if (round.learnt.length > facts) picture.append(draw("text", { x, y: base - radius - 39 }, "+" + (round.learnt.length - facts)));
    picture.append(draw("circle", { cx: x, cy: base, r: radius, class: "node" }), draw("text", { x, y: base + 4 }, round.number));
  });
  const end = step * (rounds.length + .5);
  picture.append(draw("circle", { cx: end, cy: base, r: radius + 1, class: answered ? "done" : "gap" }));
  picture.append(answered ? draw("path", { d: "M" + (end - 5) + " " + base + "l3.5 4 6.5-7.5", class: "tick" })
    : draw("text", { x: end, y: base + 4 }, "?"));
  return picture;
}

function passageChip(id, story, numbers, key, idle) {
  const title = story.titles[id] ?? id, number = numbers.get(id);
  if (number === undefined) return make("span", { class: "chip" + (idle ? " idle" : ""), text: title });
  const name = key + "-s" + number;
  return make("a", { class: "chip", href: "#" + name, on: { click: event => { event.preventDefault(); showSource(name); } } },
    make("b", { text: number }), " " + title);
}

function factList(facts, numbers, key) {
  const item = fact => {
    const made = make("li", {}, fact.text), cited = [...new Set(fact.passages.map(id => numbers.get(id)).filter(Boolean))];
    if (cited.length) glue(made, cited.map(number => citeLink(number, key)));
    return made;
  };
  const list = make("ul", {}, ...facts.slice(0, FACTS_SHOWN).map(item));
  if (facts.length <= FACTS_SHOWN + 1) { list.append(...facts.slice(FACTS_SHOWN).map(item)); return [list]; }
  const rest = facts.slice(FACTS_SHOWN);
  return [list, make("details", {}, make("summary", {}, icon("fold", "fold"), count(rest.length, "more statement", "more statements")),
    make("ul", {}, ...rest.map(item)))];
}

function rankedList(round, story) {
  const kept = round.ranked.filter(each => each.kept).length;
  const fill = (box, table) => { if (box.open && !table.rows.length) {
    table.append(make("thead", {}, make("tr", {}, ...["Passage", "", "Score"].map(text => make(text ? "th" : "td", text ? { text, scope: "col" } : {})))),
      make("tbody", {}, ...round.ranked.map(each => make("tr", { class: each.kept ? null : "out" },
        make("td", { text: story.titles[each.passage] ?? each.passage }), make("td", { text: each.kept ? "" : "left out" }),
        make("td", { text: each.score.toFixed(2) })))));
  } };
  const table = make("table");
  const box = make("details", { class: "ranked" }, make("summary", {}, icon("fold", "fold"),
    "The reranker kept " + kept + " of " + count(round.ranked.length, "passage", "passages")), table);
  box.addEventListener("toggle", () => fill(box, table));
  return box;
}

function storyRound(round, story, numbers, key) {
  const last = round === story.rounds.at(-1);
  const rows = make("dl");
  const row = (name, kind, ...content) => rows.append(make("dt", { text: name }), make("dd", { class: kind }, ...content));
  row("Knew", null, round.knew ? count(round.knew, "statement", "statements") : "nothing yet");
  if (round.missing) row("Missing", "lack", round.missing);
  if (round.question && !round.searches.some(search => search.query === round.question)) row("Worked on", null, round.question);
  for (const search of round.searches) {
    row("Looked for", null, search.query);
    row(search.useful ? "Found it in" : "Read", null, make("div", { class: "chips" },
      ...search.found.map(id => passageChip(id, story, numbers, key, !search.useful)), search.found.length ? null : "nothing"));
  }
  if (round.learnt.length) row("Learnt", "facts", ...factList(round.learnt, numbers, key));
  if (last && round.still_missing) row("Still missing", "lack", round.still_missing);
  for (const remark of round.remarks) row("Left out", "remark", remark);
  return make("li", { class: "round" }, make("span", { class: "step", text: round.number, "aria-label": "Round " + round.number, role: "img" }),
    make("div", {}, rows, round.ranked.length ? rankedList(round, story) : null));
}

function storyBox(answer, sources, key) {
  const story = answer.story, numbers = new Map(sources.map(source => [source.passage_id, source.number]));
  if (!story.rounds.length) return null;
  const facts = story.rounds.reduce((sum, round) => sum + round.learnt.length, 0);
  const searches = story.rounds.reduce((sum, round) => sum + round.searches.length, 0);
  const inside = make("div", { class: "inside" });
  const box = make("details", { class: "story" },
    make("summary", {}, icon("fold", "fold"), "How this was found", make("span", { class: "small",
      text: [count(story.rounds.length, "round", "rounds"), count(searches, "search", "searches"), facts ? count(facts, "statement", "statements") : ""].filter(Boolean).join(" · ") })),
    inside);
  box.addEventListener("toggle", () => {
    if (!box.open || inside.childElementCount) return;
    inside.append(storyPicture(story, story.answered, Math.min(640, inside.clientWidth - 32)),
      make("p", { class: "legend small" }, make("span", {}, make("i"), "a statement that it learnt"), make("span", {}, make("i", { class: "gap" }), "something was missing")),
      make("ol", {}, ...story.rounds.map(round => storyRound(round, story, numbers, key))));
    if (story.ending) inside.append(make("p", { class: "ending", text: story.ending }));
  });
  return box;
}
