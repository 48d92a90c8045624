// What the page keeps in this browser: conversations, and the key until the tab is closed.
const STORE = "knowgap.conversations";
const at = id => document.getElementById(id);
let remembered = [];
let lasting = true;

function make(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

// A text as it is, but its Markdown tables as tables.
function withTables(text) {
  const parts = [];
  for (const [place, block] of text.split(/((?:^\|.*\|[ \t]*(?:\n|$)){2,})/m).entries()) {
    if (place % 2 === 0) { if (block) parts.push(block); continue; } // between tables
    const rows = block.trim().split("\n").map(row => row.trim().slice(1, -1).split(/(?<!\\)\|/).map(cell => cell.trim().replaceAll("\\|", "|")));
    const ruled = rows[1].every(cell => /^:?-+:?$/.test(cell));
    const row = (cells, tag) => make("tr", {}, ...cells.map(cell => make(tag, { text: cell })));
    parts.push(make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table" }, make("table", {}, ruled ? make("thead", {}, row(rows[0], "th")) : null,
      make("tbody", {}, ...rows.slice(ruled ? 2 : 0).map(cells => row(cells, "td"))))));
  }
  return parts;
}

async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const parts = event.match(/^event: (\w+)\ndata: ([^]*)$/);
      if (parts) yield [parts[1], JSON.parse(parts[2])];
    }
  }
}

function icon(name, kind) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("aria-hidden", "true");
  if (kind) made.setAttribute("class", kind);
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", "#i-" + name);
  made.append(use);
  return made;
}

const count = (number, one, several) => number.toLocaleString("en") + " " + (number === 1 ? one : several);

function conversations() {
  if (lasting) try { return JSON.parse(localStorage.getItem(STORE)) ?? []; } catch { lasting = false; }
  return remembered;
}

// Where there is no room, the oldest go; where this browser allows no storage, all last until the page is closed.
function keepAll(list) {
  remembered = list;
  for (let kept = list; lasting; kept = kept.slice(0, -1)) {
    try { return localStorage.setItem(STORE, JSON.stringify(kept)); } catch { lasting = kept.length > 1; }
  }
}

function keep(conversation) {
  keepAll([conversation, ...conversations().filter(other => other.id !== conversation.id)]);
}

function tabKey(value) {
  tabKey.value = value ?? tabKey.value;
  try {
    if (value !== undefined) sessionStorage.setItem("knowgap.key", value);
    return sessionStorage.getItem("knowgap.key") ?? tabKey.value;
  } catch { return tabKey.value; }
}
