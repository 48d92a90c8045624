"""How a report looks: light and dark, on a desk and on a phone, on screen and on paper."""

from __future__ import annotations

__all__ = ["CSS"]

CSS = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f6f8; --line: #d5d9e0; --text: #1b2230; --soft: #566074;
  --accent: #1d5bd1; --accent-soft: #c9dafb; --good: #14713b; --bad: #b3261e; --warm: #a35200; --warm-soft: #fff3e0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --panel: #1e232b; --line: #3a4250; --text: #e6e9ef; --soft: #a3adbf;
    --accent: #82b0ff; --accent-soft: #2b426b; --good: #6fcf97; --bad: #ff8a80; --warm: #ffb865; --warm-soft: #33271a;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 1rem 1.25rem 3rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 .75rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--accent); }
section { border-top: 1px solid var(--line); padding-top: 1.25rem; margin-top: 1.75rem; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: .5rem; background: var(--page); padding: .25rem .75rem; z-index: 2; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: .5rem 0; margin-top: 1rem; font-size: .9375rem;
  border-top: 1px solid var(--line); }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .875rem; }
.note, figcaption, dt, .soft { color: var(--soft); font-size: .875rem; }
.warning { border-left: 4px solid var(--warm); background: var(--warm-soft); padding: .5rem .75rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 3px; padding: 0 .375rem;
  font-size: .8125rem; white-space: nowrap; }
.badge.test { color: var(--good); } .badge.dev, .badge.train { color: var(--warm); }
.badge.unknown { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.tile { background: var(--panel); border-radius: 6px; padding: .75rem 1rem; font-size: .875rem; }
.tile .name { color: var(--soft); } .tile .value { font-size: 1.375rem; font-weight: 600; line-height: 1.4; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .5rem 1.25rem; margin: .75rem 0; }
dt { line-height: 1.2; } dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9375rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; unicode-bidi: isolate; }
thead th { color: var(--soft); font-size: .875rem; font-weight: 600; border-bottom-width: 2px; vertical-align: bottom; }
td:last-child:not(.number) { min-width: 14rem; }
tbody th { font-weight: 500; min-width: 7rem; } th.number, td.number { text-align: right; white-space: nowrap; }
tr.chosen > * { background: var(--accent-soft); }
figure { margin: .75rem 0; } figcaption { margin-bottom: .25rem; }
ul.bars { list-style: none; margin: 0; padding: 0; font-size: .9375rem; font-variant-numeric: tabular-nums;
  display: grid; grid-template-columns: fit-content(16rem) minmax(6rem, 1fr) max-content; gap: 0 .75rem; }
ul.bars li { display: grid; grid-template-columns: subgrid; grid-column: 1 / -1; align-items: center;
  padding: .2rem 0; }
ul.bars .shown { text-align: right; }
.track { position: relative; height: 1rem; background: var(--panel); border-radius: 3px; }
.bar { display: block; height: 100%; background: var(--accent); border-radius: 3px; min-width: 2px; }
.range { position: absolute; top: .375rem; height: .25rem; background: var(--accent); opacity: .55; min-width: 1px; }
.dot { position: absolute; top: .1875rem; width: .625rem; height: .625rem; margin-left: -.3125rem; border-radius: 50%;
  background: var(--accent); }
.zero { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--soft); }
svg { display: block; width: 100%; height: auto; font-family: inherit; overflow: visible; }
svg text { fill: var(--soft); font-size: 12px; } svg .axis { stroke: var(--line); }
svg .trail { fill: none; stroke: var(--accent); stroke-width: 1.5; opacity: .7; }
svg .complete { fill: var(--accent); fill-opacity: .55; stroke: var(--accent); }
svg .pruned { fill: none; stroke: var(--soft); stroke-width: 1.5; }
svg .paper { fill: var(--page); stroke: var(--warm); stroke-width: 2; }
svg .chosen { fill: var(--warm); stroke: var(--text); stroke-width: 1.5; }
.narrow { display: none; }
.legend { display: flex; flex-wrap: wrap; gap: .125rem 1.25rem; list-style: none; margin: .25rem 0; padding: 0;
  color: var(--soft); font-size: .875rem; }
.legend li { display: flex; align-items: center; gap: .375rem; } .legend svg { width: 16px; height: 16px; }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem 1.5rem; }
.multiples figcaption { color: var(--text); font-weight: 500; }
summary { cursor: pointer; padding: .25rem 0; }
.filter { border: 0; padding: 0; margin: .75rem 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem;
  font-size: .9375rem; }
.filter legend { float: left; margin-right: 1rem; padding: 0; color: var(--soft); }
.q { border-bottom: 1px solid var(--line); } .q > summary { display: flex; gap: .75rem; align-items: baseline; }
.q > summary::before { content: "▸"; color: var(--soft); } .q[open] > summary::before { content: "▾"; }
.q > summary::-webkit-details-marker { display: none; }
.q > summary .scores { margin-left: auto; text-align: right; color: var(--soft); font-size: .875rem;
  font-variant-numeric: tabular-nums; min-width: 7rem; }
.q > summary b { min-width: 3.25rem; font-variant-numeric: tabular-nums; font-weight: 600; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 1rem; margin: .5rem 0 1rem; }
.side { background: var(--panel); border-radius: 6px; padding: .5rem .875rem; min-width: 0; font-size: .9375rem; }
.side h4 { margin: .125rem 0 .25rem; font-size: .9375rem; } .side p { margin: .25rem 0; }
.trace, .trace ul { margin: .25rem 0; padding-left: 1.125rem; font-size: .875rem; } .trace > li { margin: .25rem 0; }
.trace .when { color: var(--soft); font-weight: 600; list-style: none; margin-left: -1.125rem;
  counter-increment: list-item 0; }
.trace .answered, .trace .selected { color: var(--good); } .trace .missing { color: var(--warm); }
.trace .malformed { color: var(--bad); } .trace .rejected { color: var(--soft); }
.questions:has([value=differs]:checked) .q:not(.differs), .questions:has([value=win]:checked) .q:not(.win),
.questions:has([value=loss]:checked) .q:not(.loss), .questions:has([value=same]:checked) .q:not(.same),
.questions:has([value=failed]:checked) .q:not(.failed), .questions:has([value=short]:checked) .q:not(.short)
  { display: none; }
@media (max-width: 640px) {
  body { padding: .5rem 1rem 2rem; } h1 { font-size: 1.375rem; }
  .wide { display: none; } .narrow { display: block; }
  ul.bars { grid-template-columns: 1fr max-content; } ul.bars li { gap: .125rem .75rem; padding: .375rem 0; }
  ul.bars .track { grid-column: 1 / -1; grid-row: 2; }
  .q > summary { flex-wrap: wrap; gap: .125rem .75rem; } .q > summary .text { flex: 1 1 70%; }
  .q > summary .scores { margin-left: 1.5rem; text-align: left; }
}
@media print {
  body { max-width: none; font-size: 11pt; } nav, .skip, .filter { display: none; } .scroll { overflow: visible; }
  figure, .tile, .side, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .bar, .range, .dot, tr.chosen > * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
