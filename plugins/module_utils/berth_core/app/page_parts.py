# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's style sheet and script, as they stand in its page. Read by html_report.py alone.

In Python files, because Ansible takes no others along when it brings a module to a host. Neither of them asks the
network for anything, and the page's own policy would not let it.
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light; --bg: #f6f7f9; --card: #fff; --ink: #1b2430; --soft: #5b6675; --line: #d8dde4;
  --free: #2e7d4f; --held: #2f5fb3; --kept: #8a6a12; --bad: #b3261e; --other: #6b7280; }
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) { color-scheme: dark; --bg: #12161c;
  --card: #1b212a;
  --ink: #e4e9f0; --soft: #9aa6b5; --line: #323b47; --free: #6cc795; --held: #86acf2; --kept: #dcb95a; --bad: #ff8b81;
  --other: #a3acb9; } }
:root[data-theme=dark] { color-scheme: dark; --bg: #12161c; --card: #1b212a; --ink: #e4e9f0; --soft: #9aa6b5;
  --line: #323b47; --free: #6cc795; --held: #86acf2; --kept: #dcb95a; --bad: #ff8b81; --other: #a3acb9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header { position: sticky; top: 0; z-index: 1; background: var(--card); border-bottom: 1px solid var(--line);
  padding: .6rem 1.2rem; display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: center; }
h1 { font-size: 1.15rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0; }
main { padding: 0 1.2rem 3rem; max-width: 110rem; margin: auto; }
small, .soft { color: var(--soft); }
input, select, button { font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--line);
  border-radius: .4rem; padding: .25rem .6rem; }
#search { flex: 1 1 14rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .7rem; margin: 1rem 0; }
.tile, .node { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.35rem; }
meter { width: 100%; height: .6rem; }
.nodes { display: grid; grid-template-columns: repeat(auto-fill, minmax(21rem, 1fr)); gap: .7rem; }
.node { content-visibility: auto; contain-intrinsic-size: auto 12rem; }
.node > p { margin: .1rem 0 .4rem; }
.disks { list-style: none; margin: .3rem 0 0; padding: 0; display: grid; gap: .25rem; }
.disks li { border-left: .35rem solid var(--other); background: var(--bg); border-radius: .25rem; padding: .15rem .5rem;
  overflow-wrap: anywhere; }
.disks .free { border-color: var(--free); } .disks .held { border-color: var(--held); }
.disks .kept { border-color: var(--kept); } .disks .bad { border-color: var(--bad); }
.word { font-weight: 600; } .free .word { color: var(--free); } .held .word { color: var(--held); }
.kept .word { color: var(--kept); } .bad .word, .alarm { color: var(--bad); }
.wide { content-visibility: auto; contain-intrinsic-size: auto 30rem; overflow-x: auto; background: var(--card);
  border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .7rem; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; } td { max-width: 40rem; }
tr:last-child td { border-bottom: 0; }
[hidden] { display: none !important; }
@media print { header { position: static; } #search, #state, #theme { display: none; } .node { break-inside: avoid; } }
"""

SCRIPT = """
"use strict";
(() => {
  const root = document.documentElement, find = id => document.getElementById(id);
  const search = find("search"), state = find("state"), count = find("count");
  const items = [...document.querySelectorAll("[data-find]")].map(element => ({
    element, node: element.classList.contains("node"), text: element.textContent.toLowerCase(),
    words: " " + element.dataset.find + " " }));
  function show() {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean), wanted = state.value;
    let nodes = 0;
    for (const item of items) {
      const seen = words.every(word => item.text.includes(word)) &&
        (!wanted || !item.node || item.words.includes(" " + wanted + " "));
      item.element.hidden = !seen;
      if (seen && item.node) nodes += 1;
    }
    count.textContent = words.length || wanted ? nodes + " of " + count.dataset.total + " nodes" : "";
    root.dataset.shown = String(nodes);
  }
  // A link to what is looked at: page.html#q=words&state=free&theme=dark
  const asked = new URLSearchParams(location.hash.slice(1));
  search.value = asked.get("q") || "";
  if ([...state.options].some(option => option.value === asked.get("state"))) state.value = asked.get("state");
  if (["light", "dark"].includes(asked.get("theme"))) root.dataset.theme = asked.get("theme");
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 120); });
  state.addEventListener("change", show);
  find("theme").addEventListener("click", () => {
    const now = root.dataset.theme, system = matchMedia("(prefers-color-scheme: dark)");
    const dark = now ? now === "dark" : system.matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  show();
  void document.body.offsetHeight;  // once it is laid out it can be used
  root.dataset.ready = String(Math.round(performance.now()));
})();
"""
