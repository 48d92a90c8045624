
"use strict";
const lines = JSON.parse(document.getElementById("lines").textContent);
const boxes = [...document.querySelectorAll("input[name=strike]")];
const button = document.getElementById("save");
const place = "knowgap " + boxes.map(box => box.value).join(" ");

function show() {
  const kept = boxes.filter(box => !box.checked).length;
  document.getElementById("count").textContent = `${kept} of ${boxes.length} questions are kept`;
  button.disabled = kept === 0;
}

function remember() {
  try {
    localStorage.setItem(place, JSON.stringify(boxes.filter(box => box.checked).map(box => box.value)));
  } catch { /* a browser may forbid it; then a reload forgets what was struck out */ }
}

function recall() {
  try {
    const struck = new Set(JSON.parse(localStorage.getItem(place) ?? "[]"));
    for (const box of boxes) box.checked = struck.has(box.value);
  } catch { /* as above */ }
}

for (const box of boxes) box.addEventListener("change", () => { show(); remember(); });
button.addEventListener("click", () => {
  const struck = new Set(boxes.filter(box => box.checked).map(box => box.value));
  const kept = lines.filter(([id]) => !struck.has(id)).map(([, line]) => line);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(kept, {type: "application/jsonl"}));
  link.download = button.dataset.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
recall();
show();
