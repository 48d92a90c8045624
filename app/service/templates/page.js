// The page: conversations, and the question that is being answered.
let open_ = null;     // the conversation that is shown
let running = null;   // {turn, abort} of the question that is being answered
const TURNS_SAID = 6;

// On a touch screen, the keyboard would cover the answer.
function focusQuestion() {
  if (matchMedia("(pointer: fine)").matches) at("question").focus({ preventScroll: true });
  else at("question").blur();
}

const say = text => { at("said").textContent = text; };

const readSo = read => read.searchable.toLocaleString("en") + " of " + count(read.documents, "document", "documents");

// What the page says of a step while the answer is being found.
function stepLine(step) {
  const where = lines => [...new Set(lines.flatMap(line => line.split(" → ").at(-1).split(", ")))].filter(name => name !== "nothing").join(", ") || "nothing";
  switch (step.kind) {
    case "asked": case "reranked": case "queried": case "answered": case "stopped": return null;
    case "retrieved": return ["Looked for “" + step.queries.join("”, “") + "”: " + where(step.text.slice(1))];
    case "extracted": return [step.statements.length ? "Learnt " + count(step.statements.length, "statement", "statements") : "Learnt nothing new"];
    case "missing": return ["Missing: " + step.missing, "lack"];
    case "reasoned": if (step.what.startsWith("answer")) return null; // it may be a guess; falls through
    default: return [step.text[0].replace(/^./, first => first.toUpperCase())];
  }
}

function showTurn(turn, place) {
  const key = "t" + place;
  let box = at(key);
  if (!box) { box = make("article", { id: key, class: "turn", "aria-labelledby": key + "-q" }); at("turns").append(box); }
  box.replaceChildren(make(place ? "h2" : "h1", { id: key + "-q", text: turn.question }));
  const understood = turn.answer?.understood_as;
  if (understood && understood !== turn.question) box.append(make("p", { class: "understood", text: "Understood as: " + understood }));
  const columns = make("div", { class: "columns" });
  box.append(columns);
  if (turn.answer) {
    const sources = sourcesOf(turn.answer), cost = turn.answer.cost;
    columns.append(...[make("div", {}, answerText(turn.answer, sources, key),
      make("div", { class: "tools" }, againButton(turn, "Ask again"),
        make("span", { text: cost.seconds.toFixed(1) + " s · " + count(cost.lm_calls, "model call", "model calls") }))),
      sourceList(turn.answer, sources, key), storyBox(turn.answer.story)].filter(Boolean));
  } else if (turn === running?.turn) {
    columns.append(make("div", { class: "working" }, make("ol", { id: "steps" }, make("li", { id: "now", text: "Looking in the documents" }))));
  } else {
    const lost = turn.problem ?? { calm: true, message: "The page was closed before the answer came." };
    columns.append(make("div", { class: "problem" + (lost.calm ? " calm" : "") }, make("p", { text: lost.id ? lost.message.split(";")[0].replace(/^./, first => first.toUpperCase()) + "." : lost.message }),
      lost.id ? make("p", { class: "small" }, "If you report this, give the number ", make("code", { text: lost.id })) : null,
      againButton(turn, "Ask again")));
  }
  return box;
}

function againButton(turn, text) {
  return make("button", { type: "button", on: { click: () => { if (!running) answerTurn(turn); } } }, turn.answer ? icon("again") : null, text);
}

function showConversation(conversation) {
  open_ = conversation;
  at("turns").replaceChildren();
  const empty = conversation === null;
  at("welcome").hidden = !empty;
  (empty ? at("welcome-form") : document.querySelector("#dock")).append(at("form"));
  at("dock").hidden = empty;
  at("question").placeholder = empty ? "Ask a question" : "Ask a follow-up question";
  document.title = empty ? "knowgap" : conversation.turns[0].question + " · knowgap";
  if (!empty) conversation.turns.forEach(showTurn);
  showHistory();
  showSide(false);
}

function goTo(conversation) {
  history.pushState(null, "", conversation ? "#" + conversation.id : location.pathname);
  showConversation(conversation);
  if (conversation) at("turns").lastElementChild.scrollIntoView();
  focusQuestion();
}

function showHistory() {
  const kept = conversations();
  at("history-title").hidden = !kept.length;
  at("history").replaceChildren(...kept.map(conversation => {
    const title = conversation.turns[0].question, current = conversation.id === open_?.id;
    return make("li", { "data-open": current },
      make("button", { type: "button", class: "row", text: title, title, "aria-current": current ? "page" : null, on: { click: () => current ? showSide(false) : leave(() => goTo(conversations().find(each => each.id === conversation.id) ?? null)) } }),
      make("button", { type: "button", class: "icon", "aria-label": "Forget: " + title, on: { click: () => forget(conversation.id) } }, icon("bin")));
  }));
}

function forget(id) {
  if (open_?.id === id) running?.abort.abort();
  keepAll(conversations().filter(each => each.id !== id));
  if (open_?.id === id) goTo(null); else showHistory();
  at("new").focus();
}

// A question that is being answered is stopped where its conversation is left.
function leave(then) { running?.abort.abort(); then(); }

function showSide(shown) {
  at("side").toggleAttribute("data-shown", shown);
  at("veil").hidden = !shown;
  at("menu").setAttribute("aria-expanded", shown);
  if (shown) at("new").focus();
}

function saveOpen(conversation) {
  keep(conversation);
  if (conversation === open_) showHistory();
}

async function answerTurn(turn) {
  const conversation = open_, place = conversation.turns.indexOf(turn), abort = new AbortController();
  running = { turn, abort };
  delete turn.answer;
  delete turn.problem;
  saveOpen(conversation);
  showTurn(turn, place).scrollIntoView({ block: "start", behavior: "smooth" });
  at("stop").hidden = false;
  at("ask").hidden = true;
  focusQuestion();
  say("Working on it");
  const started = Date.now();
  const ticking = setInterval(() => { const now = at("now"); if (now) now.textContent = "Reading · " + Math.round((Date.now() - started) / 1000) + " s"; }, 1000);
  try {
    const headers = { "Content-Type": "application/json" };
    if (tabKey()) headers.Authorization = "Bearer " + tabKey();
    const body = { question: turn.question, stream: true };
    const said = conversation.turns.slice(0, place).filter(each => each.answer?.answered || each.answer?.supported === false).slice(-TURNS_SAID);
    if (said.length) body.said = said.map(each => ({ question: each.answer.understood_as ?? each.question, answer: each.answer.answer }));
    const response = await fetch("v1/ask", { method: "POST", headers, body: JSON.stringify(body), signal: abort.signal });
    if (!response.ok) {
      if (response.status === 401) {
        at("key-dialog").showModal();
        throw { calm: true, key: true, message: "This page asks for a key." };
      }
      throw (await response.json().catch(() => ({}))).error ?? { message: "The service failed with status " + response.status + "." };
    }
    for await (const [name, data] of readEvents(response.body)) {
      if (name === "answer") turn.answer = data;
      else if (name === "error") throw data.error;
      else { const line = stepLine(data); if (line) at("now")?.before(make("li", { class: line[1], text: line[0] })); }
    }
    if (!turn.answer) throw { message: "The connection was closed before the answer came." };
    say("The answer: " + (turn.answer.answer || "none"));
  } catch (error) {
    turn.problem = error.name === "AbortError" ? { calm: true, message: "You stopped this question." }
      : error instanceof TypeError ? { message: "The service cannot be reached. Is it still running?" }
      : { calm: error.calm, key: error.key, message: error.message, id: error.id };
    say(turn.problem.message);
  } finally {
    clearInterval(ticking);
    running = null;
    at("stop").hidden = true;
    at("ask").hidden = false;
    if (conversations().some(each => each.id === conversation.id)) saveOpen(conversation);
    if (conversation === open_) showTurn(turn, place);
  }
}

function ask(question) {
  if (!question || running) return;
  const turn = { question };
  if (open_) open_.turns.push(turn);
  else {
    const conversation = { id: crypto.randomUUID?.() ?? String(Date.now()), turns: [turn] };
    showConversation(conversation);
    history.pushState(null, "", "#" + conversation.id);
  }
  at("question").value = "";
  answerTurn(turn);
}

// What is indexed, what was left out and why, and what is still being read.
async function showDocuments() {
  const headers = tabKey() ? { Authorization: "Bearer " + tabKey() } : {};
  const response = await fetch("documents", { headers }).catch(() => null);
  if (response?.status === 401) return at("key-dialog").showModal();
  const told = response?.ok ? await response.json().catch(() => null) : null;
  const others = Object.entries(told?.left_out ?? {}).map(([reason, number]) => number + " " + reason).join(", ");
  at("documents-said").textContent = !told ? (response ? "The service failed with status " + response.status + "." : "The service cannot be reached.")
    : [told.number ? count(told.number, "document", "documents") + "." : told.problem || told.busy ? "" : "This index does not know its documents.",
      told.problem ? told.problem + "." : "", told.busy ? "Now: " + told.busy + "." : "", others ? "Left out: " + others + "." : ""].filter(Boolean).join(" ");
  at("documents-list").replaceChildren(...(told?.documents ?? []).map(each => make("tr", {}, make("td", { text: each.name }),
    make("td", { class: "count", text: each.passages || "" }),
    make("td", { class: "lack", text: each.being_read ? "being read" : each.left_out ? "left out: " + each.left_out : each.note }))));
  if (!at("documents-dialog").open) at("documents-dialog").showModal();
}

at("form").addEventListener("submit", event => { event.preventDefault(); ask(at("question").value.trim()); });
at("question").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); at("form").requestSubmit(); }
});
at("stop").addEventListener("click", () => { running?.abort.abort(); focusQuestion(); });
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); at("question").focus(); }); // no popstate
for (const id of ["new", "new-small"]) at(id).addEventListener("click", () => leave(() => goTo(null)));
at("menu").addEventListener("click", () => showSide(!at("side").hasAttribute("data-shown")));
at("veil").addEventListener("click", () => { showSide(false); at("menu").focus(); });
at("documents").addEventListener("click", showDocuments);
at("key-form").addEventListener("submit", () => { tabKey(at("key").value.trim()); const turn = open_?.turns.at(-1); if (turn?.problem?.key && !running) answerTurn(turn); });
at("key-cancel").addEventListener("click", () => at("key-dialog").close());
document.addEventListener("keydown", event => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (at("side").hasAttribute("data-shown")) { showSide(false); at("menu").focus(); } else running?.abort.abort();
  }
});
addEventListener("popstate", () => leave(() => showConversation(conversations().find(each => "#" + each.id === location.hash) ?? null)));

// How much of the documents can be searched, while they are being read.
async function showReading() {
  const health = await fetch("healthz").then(response => response.json()).catch(() => null), read = health?.index?.being_read;
  at("reading").hidden = !read;
  if (read) at("reading").textContent = read.searchable ? readSo(read) + " can be searched so far; the others are being read." : "The documents are being read.";
  if (read || !health) setTimeout(showReading, read ? 2000 : 15000);
}

showReading();
showConversation(conversations().find(each => "#" + each.id === location.hash) ?? null);
if (!lasting) document.querySelector(".foot .small").textContent = "This browser keeps no questions: they are gone when you reload.";
focusQuestion();
