"""How pages and fragments look: ink on whatever is behind, and two colours that nearly everyone can tell apart.

Every rule of a fragment begins with its class, so that a notebook around it stays as it is; words and lines take the colour of the
text around them, so that it is read on dark and on light.
"""

from headwater.show.tree_plots import MINUS, PLUS

FRAGMENT = """
.headwater { container-type: inline-size; line-height: 1.45; font-variant-numeric: tabular-nums; text-align: left;
  --plus: %s; --minus: %s; --faint: color-mix(in srgb, currentColor 22%%, transparent); }
.headwater figure { margin: 0 0 1.8em; padding: 0; }
.headwater figcaption, .headwater caption { font-weight: 600; font-size: 1.08em; text-align: left; padding: 0 0 .45em;
  color: inherit; caption-side: top; white-space: pre-wrap; }
.headwater .hw-remark { margin: .5em 0 0; font-size: .88em; opacity: .72; max-width: 60em; }

.headwater .hw-row { display: grid; font: inherit; column-gap: 1em; align-items: center; list-style: none; margin: 0; padding: 0;
  grid-template-columns: minmax(8em, var(--label)) minmax(8em, 20em) var(--number) minmax(0, 1fr); }
.headwater figure .hw-row { background: repeating-linear-gradient(to right, transparent 0 .42em, var(--faint) .42em
  calc(.42em + 1px), transparent calc(.42em + 1px) 1.3em) 0 0 / calc(var(--depth, 0) * 1.3em) 100%% no-repeat; }
.headwater .hw-row::-webkit-details-marker { display: none; }
.headwater details, .headwater summary { margin: 0; padding: 0; }
.headwater summary { cursor: pointer; }
.headwater figure .hw-row:not(.hw-scale):hover { background-color: color-mix(in srgb, currentColor 7%%, transparent); }
.headwater summary:focus-visible, .headwater .hw-wide:focus-visible { outline: 2px solid var(--plus); outline-offset: 1px; }
.headwater .hw-label { white-space: pre-wrap; overflow-wrap: anywhere; padding: .1em 0 .1em calc(var(--depth) * 1.3em + 1.2em);
  text-indent: -1.2em; min-width: 0; }
.headwater .hw-label > bdi { text-indent: 0; }
.headwater .hw-label::before { content: ""; display: inline-block; width: 1.2em; text-indent: 0; }
.headwater summary > .hw-label::before { content: "▸"; opacity: .6; }
.headwater details[open] > summary > .hw-label::before { content: "▾"; }
.headwater figure > details > summary > .hw-label, .headwater figure > details > summary > .hw-number { font-weight: 600; }
.headwater .hw-bar { position: relative; align-self: stretch; min-height: 1.3em; }
.headwater .hw-bar::before { content: ""; position: absolute; inset: 0 auto 0 calc(50%% - .5px); width: 1px;
  background: currentColor; opacity: .45; }
.headwater .hw-bar i { position: absolute; top: calc(50%% - .4em); height: .8em; box-sizing: border-box; min-width: 1px;
  background: var(--side); border: 1.5px solid var(--side); print-color-adjust: exact; }
.headwater .hw-plus { --side: var(--plus); left: 50%%; border-radius: 0 2px 2px 0; }
.headwater .hw-minus { --side: var(--minus); right: 50%%; border-radius: 2px 0 0 2px; }
.headwater details[open] > summary > .hw-bar i { background: color-mix(in srgb, var(--side) 16%%, transparent); }
.headwater .hw-remainder > .hw-bar i { border-width: 1px;
  background: repeating-linear-gradient(135deg, var(--side) 0 1px, transparent 1px 4px); }
.headwater .hw-remainder > .hw-label { font-style: italic; }
.headwater .hw-remainder > .hw-label > bdi { opacity: .75; }
.headwater .hw-number { text-align: right; white-space: nowrap; }
.headwater .hw-note { font-size: .88em; opacity: .72; overflow-wrap: anywhere; white-space: pre-wrap; }
.headwater .hw-ends { display: flex; justify-content: space-between; font-size: .74em; opacity: .6; }

.headwater .hw-wide { overflow-x: auto; margin: 0 0 1.8em; }
.headwater table { border-collapse: collapse; margin: 0; font-size: inherit; table-layout: auto; border: 0; color: inherit; }
.headwater table tr:nth-child(n) { background: none; }
.headwater table th, .headwater table td { text-align: left; vertical-align: top; border: 0; padding: .15em 1.4em .15em 0;
  white-space: pre-wrap; max-width: 42em; font-variant-numeric: tabular-nums; }
.headwater .hw-table th { font-weight: 400; font-size: .88em; opacity: .72; vertical-align: bottom; padding-right: calc(1.4em / .88); }
.headwater .hw-table tbody tr:nth-child(n) { border-top: 1px solid var(--faint); }
.headwater .hw-table tbody tr:nth-child(n):hover { background: color-mix(in srgb, currentColor 7%%, transparent); }
.headwater .hw-table .hw-right { text-align: right; white-space: nowrap; }
.headwater .hw-grid th { font-weight: 400; font-size: .8em; white-space: pre; padding: .1em .6em; text-align: right;
  vertical-align: middle; }
.headwater .hw-grid thead th { text-align: left; vertical-align: bottom; padding: .3em 0; }
.headwater .hw-grid thead th:not(.hw-corner) > span { display: inline-block; writing-mode: vertical-rl; text-orientation: sideways; rotate: 180deg; }
.headwater .hw-flat thead th:not(.hw-corner) { text-align: right; padding: .3em .5em; }
.headwater .hw-flat thead th:not(.hw-corner) > span { writing-mode: horizontal-tb; rotate: none; }
.headwater .hw-grid .hw-corner { opacity: .6; padding-right: .8em; }
.headwater .hw-grid .hw-corner > span { display: block; text-align: right; }
.headwater .hw-grid td { --side: var(--plus); min-width: 3.4em; height: 1.9em; padding: 0 .4em; text-align: right;
  vertical-align: middle; font-size: .86em; border: 1px solid color-mix(in srgb, currentColor 10%%, transparent);
  background-color: color-mix(in srgb, var(--side) var(--away, 0%%), transparent); print-color-adjust: exact; }
.headwater .hw-grid td.hw-below { --side: var(--minus); background-image: repeating-linear-gradient(135deg,
  color-mix(in srgb, var(--side) var(--away, 0%%), transparent) 0 1px, transparent 1px 4px); }
.headwater .hw-dense td { min-width: 1.05em; width: 1.05em; height: 1.05em; padding: 0; }
.headwater .hw-plot svg { fill: currentColor; max-width: 100%%; height: auto; }
.headwater .hw-plot svg * { stroke-linejoin: round; stroke-linecap: butt; }

@container (max-width: 44em) {
  .headwater .hw-row { grid-template-columns: minmax(0, 1fr) minmax(4em, 34%%) var(--number); column-gap: .6em; }
  .headwater .hw-note { grid-column: 1 / -1; padding: 0 0 .3em calc((var(--depth) * 1.3em + 1.2em) / .88); }
  .headwater .hw-note:empty { display: none; }
}
""" % (PLUS, MINUS)  # noqa: UP031  (braces are CSS' own)

PAGE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: clamp(1rem, 4vw, 3rem); background: #fefefc; color: #1a1a1a;
  font: 17px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; }
h1 { font-size: 1.5em; font-weight: 600; line-height: 1.25; margin: 0 0 1.2em; white-space: pre-wrap; }
@media (prefers-color-scheme: dark) { body { background: #15171a; color: #e6e6e3; } }
@media print { body { font-size: 11pt; padding: 0; } }
"""
