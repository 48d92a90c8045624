// How the answer was found: the rounds of the search.

function passageChip(id, story, numbers, key, idle) {
  const title = story.titles[id] ?? id, number = numbers.get(id);
  if (number === undefined) return make("span", { class: "chip" + (idle ? " idle" : ""), text: title });
  const name = key + "-s" + number;
  return make("a", { class: "chip", href: "#" + name, on: { click: event => { event.preventDefault(); showSource(name); } } },
    make("b", { text: number }), " " + title);
}

function factList(facts, numbers, key) {
  const cited = fact => [...new Set(fact.passages.map(id => numbers.get(id)).filter(Boolean))].map(number => citeLink(number, key));
  return make("ul", {}, ...facts.map(fact => make("li", {}, fact.text, ...cited(fact))));
}

function storyRound(round, place, story, numbers, key) {
  const before = story.rounds.slice(0, place), knew = before.reduce((sum, each) => sum + each.learnt.length, 0);
  const rows = make("dl");
  const row = (name, kind, ...content) => rows.append(make("dt", { text: name }), make("dd", { class: kind }, ...content));
  row("Knew", null, knew ? count(knew, "statement", "statements") : "nothing yet");
  if (before.at(-1)?.missing) row("Missing", "lack", before.at(-1).missing);
  for (const search of round.searches) {
    row("Looked for", null, search.query);
    row(search.useful ? "Found it in" : "Read", null, make("div", { class: "chips" },
      ...search.found.map(id => passageChip(id, story, numbers, key, !search.useful)), search.found.length ? null : "nothing"));
  }
  if (round.learnt.length) row("Learnt", null, factList(round.learnt, numbers, key));
  if (place === story.rounds.length - 1 && round.missing) row("Still missing", "lack", round.missing);
  return make("li", { class: "round" }, make("span", { class: "step", text: place + 1, "aria-label": "Round " + (place + 1), role: "img" }),
    make("div", {}, rows));
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
    inside.append(make("ol", {}, ...story.rounds.map((round, place) => storyRound(round, place, story, numbers, key))));
    if (story.ending) inside.append(make("p", { class: "ending", text: story.ending }));
  });
  return box;
}
