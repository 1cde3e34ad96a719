"use strict";
// Search, themes, folding, printing, the drawer of a chosen value, plots.
const DATA = JSON.parse(document.getElementById("data").textContent), ROOT = document.documentElement;
const drawer = document.getElementById("drawer"), frame = document.querySelector(".layout");

const page = {
  views: [],
  details(view, node) {
    const data = view.data, link = id => html("a", { href: "#", onclick: event => { event.preventDefault(); view.go(id); } }, [data.nodes[id].o, data.nodes[id].d].filter(x => x).join(" "));
    const list = ids => ids.length ? html("ul", {}, ...ids.map(id => html("li", {}, link(id)))) : html("p", { class: "unknown" }, "nothing");
    const facts = [["type", node.t], ["module", node.path.join(" › ")], ["status", view.status(node) || KINDS[node.k]], ["at", node.p || "the file says no place"]];
    const rows = (pairs) => html("dl", { class: "facts" }, ...pairs.filter(([, text]) => text).map(([label, text, title]) => html("div", {}, html("dt", { title }, label), html("dd", {}, text))));
    drawer.replaceChildren(html("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "×"), html("h2", {}, [node.o, node.d].filter(x => x).join(" ")), rows(facts),
      html("h3", {}, "What is known of it"), rows(data.columns.map(column => [column.title, view.text(column, node), column.help])),
      ...(node.n || []).map(text => html("p", { class: "note" }, text)), ...this.source(node.p),
      ...this.changed(node),
      html("h3", {}, "Made of"), list([...new Set(node.b || node.a || [])]), html("h3", {}, "Used by"), list(view.users.get(node.id) || []));
    drawer.hidden = false; drawer.scrollTop = 0; frame.classList.add("chosen");
  },
  // the reason, the standing and the proof of the rule, as its card has them
  changed(node) {
    if (!node.c) return [];
    const card = document.getElementById(node.c[0]), copies = [...card.querySelectorAll(".brief, .steps")].map(part => html("div", {}, part.cloneNode(true)));
    const standing = [...card.querySelectorAll(".badge:not(.plain)")].flatMap(part => [" ", part.cloneNode(true)]);
    return [html("h3", {}, "Changed by"), html("p", {}, html("a", { href: "#" + node.c[0], onclick: () => reveal(node.c[0]) }, node.c[1]), ...standing), ...copies];
  },
  source(place) {
    const [, file, line] = /^(.*):(\d+)$/.exec(place || "") || [], lines = DATA.sources[file];
    if (!lines || !lines[line]) return [];
    const near = Object.keys(lines).map(Number).filter(n => Math.abs(n - line) < 3).sort((a, b) => a - b);
    return [html("h3", {}, "In the source"), html("pre", {}, ...near.map(n => html("span", { class: n === Number(line) ? "here" : "" }, `${String(n).padStart(4)}  ${lines[n]}\n`)))];
  },
};

function close() { drawer.hidden = true; frame.classList.remove("chosen"); for (const view of page.views) { view.chosen = null; view.mark(); } }

function reveal(id) { for (let part = document.getElementById(id); part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true; }

// search ---------------------------------------------------------------------------------------------------------------
const field = document.getElementById("search"), hits = document.getElementById("hits"), nothing = document.getElementById("nothing");

function search() {
  const query = field.value.trim().toLowerCase();
  let found = 0;
  for (const part of document.querySelectorAll("[data-search]")) {
    const fits = !query || part.textContent.toLowerCase().includes(query);
    part.hidden = !fits;
    found += query && fits ? 1 : 0;
  }
  for (const view of page.views) found += view.search(query);
  hits.textContent = query ? `${found} hit${found === 1 ? "" : "s"}` : "";
  nothing.hidden = !query || found > 0;
}
let waiting = 0;
field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 80); });

document.addEventListener("keydown", event => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing) { event.preventDefault(); field.focus(); field.select(); }
  if (event.key === "Escape") { if (field.value && event.target === field) { field.value = ""; search(); } else close(); }
  const row = event.target.closest?.("tr[data-id]");
  if (row && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    const rows = [...row.closest("tbody").querySelectorAll("tr[data-id]")], next = rows[rows.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) { event.preventDefault(); next.focus(); }
  }
});

// themes, folding, printing --------------------------------------------------------------------------------------------
const themes = document.getElementById("theme"), fold = document.getElementById("fold");

function setTheme(name) { ROOT.dataset.theme = name; themes.textContent = name === "dark" ? "Light" : "Dark"; themes.setAttribute("aria-label", `Switch to the ${name === "dark" ? "light" : "dark"} theme`); for (const view of page.views) view.render(); plots(); }
themes.addEventListener("click", () => setTheme(ROOT.dataset.theme === "dark" ? "light" : "dark"));

function openAll(open) { for (const card of document.querySelectorAll("details.card")) card.open = open; fold.textContent = open ? "Close all" : "Open all"; fold.setAttribute("aria-pressed", String(open)); }
fold.addEventListener("click", () => openAll(fold.getAttribute("aria-pressed") !== "true"));

let before = null;
addEventListener("beforeprint", () => { before = [[...document.querySelectorAll("details.card")].map(card => [card, card.open]), ROOT.dataset.theme]; openAll(true); ROOT.dataset.theme = "light"; });
addEventListener("afterprint", () => { if (before) { openAll(false); for (const [card, open] of before[0]) card.open = open; ROOT.dataset.theme = before[1]; before = null; } });

// plots ----------------------------------------------------------------------------------------------------------------
function plots() {
  const style = getComputedStyle(ROOT), ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim(), quiet = style.getPropertyValue("--quiet").trim();
  const config = { background: "transparent", font: "system-ui, sans-serif", view: { stroke: line }, axis: { labelColor: quiet, titleColor: quiet, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal" }, legend: { labelColor: ink, titleColor: quiet }, header: { labelColor: ink }, title: { color: ink } };
  for (const [id, spec] of Object.entries(DATA.plots)) vegaEmbed(document.getElementById(id), spec, { actions: false, renderer: "svg", ast: true, config });
}

// start ----------------------------------------------------------------------------------------------------------------
for (const [id, data] of Object.entries(DATA.graphs)) page.views.push(new GraphView(document.getElementById(id), data, page));
for (const host of document.querySelectorAll(".diagram")) { const { items, edges } = JSON.parse(host.dataset.nodes); host.append(drawn(items, edges, {})); }
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
addEventListener("hashchange", () => reveal(location.hash.slice(1)));
reveal(location.hash.slice(1));
const parts = [...document.querySelectorAll(".layout > nav a")];
const watcher = new IntersectionObserver(seen => {
  for (const entry of seen) if (entry.isIntersecting) for (const part of parts) part.hash === "#" + entry.target.id ? part.setAttribute("aria-current", "true") : part.removeAttribute("aria-current");
}, { rootMargin: "-20% 0px -70% 0px" });
for (const part of parts) watcher.observe(document.querySelector(part.hash));
