"use strict";
// The graph of a function: one module at a time before and after, and its values in a table.
const MOST_ROWS = 250, MOST_ITEMS = 220;
// one hue from pale to strong: the order is that of lightness, which everybody sees
const PALE = ["#f2f4f6", "#fbe6d0", "#f8c896", "#f0a259", "#dc7822", "#b0500c", "#702b05"], DARK = ["#262c33", "#3d3228", "#5c4026", "#855124", "#b56826", "#e58a3f", "#ffbf8a"];
const steps = () => document.documentElement.dataset.theme === "dark" ? DARK : PALE;
const CATEGORIES = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00", "#999999"];

const inkOn = colour => { const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16)); return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff"; };
const filled = colour => colour && { ground: colour, ink: inkOn(colour) };
const numberOf = value => value === "inf" || value === "-inf" || value === "nan" ? Infinity : value;
const numeral = x => x === 0 ? "0" : Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
const KINDS = { operation: "", opaque: "unknown to hnfc, carried through", input: "input of the model", weight: "parameter", constant: "constant" };

class GraphView {
  constructor(host, data, page) {
    Object.assign(this, { host, data, page, path: [], column: null, query: "", limit: MOST_ROWS, chosen: null });
    data.nodes.forEach((node, index) => { node.id = index; node.path = data.groups[node.g]; });
    this.users = new Map();
    for (const node of data.nodes) for (const from of new Set([...(node.b || []), ...(node.a || [])])) this.users.set(from, [...(this.users.get(from) || []), node.id]);
    const first = data.columns.find(column => column.key === data.first) || data.columns.find(column => column.colour);
    this.column = first || null;
    this.render();
  }

  // which item of the graph of the current module a node belongs to
  item(node) {
    const { path } = this, inside = path.every((part, i) => node.path[i] === part);
    if (!inside) return "outside:" + node.path.join(" / ");
    return node.path.length === path.length ? `node:${node.id}` : `module:${node.path[path.length]}`;
  }

  visible(side) { return this.data.nodes.filter(node => node[side] && node.k !== "constant" && node.k !== "weight"); }

  render() {
    const sides = this.data.single ? ["b"] : ["b", "a"], titles = this.data.titles;
    this.host.replaceChildren(this.tools(), this.crumbs(),
      html("div", { class: sides.length > 1 ? "panes" : "panes single" }, ...sides.map((side, i) => this.pane(side, titles[i]))), this.values());
    this.mark();
  }

  tools() {
    const select = html("select", { "aria-label": "Colour of the values", onchange: event => { this.column = this.data.columns.find(c => c.key === event.target.value) || null; this.render(); this.host.querySelector("select").focus(); } },
      html("option", { value: "" }, "no colour"), ...this.data.columns.filter(c => c.colour).map(c => html("option", { value: c.key, selected: c === this.column }, c.title)));
    return html("div", { class: "tools" }, html("label", {}, "Colour by ", select), this.legend());
  }

  legend() {
    const column = this.column, legend = html("span", { class: "legend" });
    if (!column) return legend;
    const entry = (colour, text) => legend.append(html("span", {}, html("span", { class: "swatch", style: `background:${colour}` }), text));
    if (column.colour === "category") for (const [i, name] of this.categories().entries()) entry(CATEGORIES[i % CATEGORIES.length], name);
    else { entry(steps()[0], column.low); entry(steps()[6], column.high); }
    legend.append(html("span", { class: "unknown" }, "no colour: not known"));
    return legend;
  }

  categories() { return [...new Set(this.data.nodes.map(node => node.f[this.column.key]).filter(value => value))].sort(); }

  fact(column, node, side) { return node.f[side === "a" && column.after ? column.after : column.key]; }

  colour(node, side) {
    const column = this.column, value = column && this.fact(column, node, side);
    if (value === undefined || value === null || value === "") return null;
    if (column.colour === "category") return CATEGORIES[this.categories().indexOf(value) % CATEGORIES.length];
    return steps()[this.heat(value)];
  }

  // a step of the scale: by the logarithm of an error, or of the greatest size in a range
  heat(value) {
    const { from, to } = this.column, size = Array.isArray(value) ? Math.max(...value.slice(0, 2).map(x => Math.abs(numberOf(x)))) : Math.abs(numberOf(value));
    if (!Number.isFinite(size)) return 6;
    const part = (Math.log10(Math.max(size, 1e-300)) - from) / (to - from);
    return Math.max(0, Math.min(6, Math.round(6 * part)));
  }

  crumbs() {
    const parts = [this.data.name, ...this.path];
    return html("nav", { class: "crumbs", "aria-label": "Module" }, ...parts.flatMap((part, depth) => [depth ? "›" : null,
      html("button", { type: "button", disabled: depth === parts.length - 1, onclick: () => this.open(this.path.slice(0, depth)) }, part)]));
  }

  open(path) { this.path = path; this.limit = MOST_ROWS; this.render(); this.host.querySelector(".crumbs button:disabled")?.scrollIntoView({ block: "nearest" }); }

  pane(side, title) {
    const nodes = this.visible(side), items = new Map(), edges = new Map();
    const known = id => id.startsWith("node:") || id.startsWith("module:");
    for (const node of nodes) {
      const id = this.item(node);
      if (!known(id)) continue;
      if (!items.has(id)) items.set(id, id.startsWith("node:") ? this.boxOf(node, side) : { id, title: id.slice(7), members: [], kind: "module" });
      items.get(id).members?.push(node);
    }
    const outside = new Map();
    for (const node of nodes) for (const from of node[side]) {
      const source = this.data.nodes[from];
      if (source.k === "constant" || source.k === "weight" || !source[side]) continue;
      const [u, v] = [this.item(source), this.item(node)];
      if (u === v || (!known(u) && !known(v))) continue;
      for (const [id, end] of [[u, source], [v, node]]) if (!known(id)) outside.set(id + (id === u ? "<" : ">"), { id: id + (id === u ? "<" : ">"), title: end.path.join(".") || "the model itself", sub: id === u ? "from" : "to", kind: "outside", before: id === u });
      edges.set(`${u}|${v}`, [known(u) ? u : u + "<", known(v) ? v : v + ">"]);
    }
    for (const item of items.values()) if (item.members) this.summed(item, side);
    const ends = [...outside.values()];
    const list = [...ends.filter(e => e.before), ...items.values(), ...ends.filter(e => !e.before)];
    const body = list.length > MOST_ITEMS
      ? html("p", { class: "note" }, `${list.length} operations in one module are too many for a drawing; the table below has all of them.`)
      : list.length ? drawn(list, [...edges.values()], { choose: id => this.choose(id), label: `${title}: ${this.path.join(", ") || this.data.name}` }) : html("p", { class: "note" }, "Nothing of this module is there.");
    return html("div", { class: "pane" }, html("h3", {}, title), html("div", { class: "canvas" }, body));
  }

  boxOf(node, side) {
    const constants = node[side].map(i => this.data.nodes[i]).filter(n => n.k === "constant" || n.k === "weight").map(n => n.d);
    const title = [node.o, node.d, ...constants].filter(x => x).join(" · ");
    const shown = this.column && this.fact(this.column, node, side) !== undefined ? this.text(this.column, node, side) : node.t;
    const kind = this.data.single || node.s === "same" ? node.k : node.s;
    return { id: `node:${node.id}`, title, sub: shown, kind, fill: filled(this.colour(node, side)), label: [title, node.t, this.status(node), this.column ? `${this.column.title} ${this.text(this.column, node, side)}` : ""].filter(x => x).join(", ") };
  }

  // a module has the colour of its worst value, and says how many of its values changed
  summed(item, side) {
    const changed = item.members.filter(n => n.s !== "same").length, count = item.members.length;
    const heats = this.column && this.column.colour !== "category" ? item.members.map(n => this.fact(this.column, n, side)).filter(v => v !== undefined && v !== null && v !== "").map(v => this.heat(v)) : [];
    item.sub = `${count} value${count === 1 ? "" : "s"}${changed && !this.data.single ? `, ${changed} changed` : ""}`;
    item.fill = heats.length ? filled(steps()[Math.max(...heats)]) : null;
    if (this.column && this.column.colour === "category") {
      const counts = new Map();
      for (const node of item.members) { const name = node.f[this.column.key]; if (name) counts.set(name, (counts.get(name) || 0) + 1); }
      if (counts.size === 1) item.fill = filled(this.colour(item.members.find(node => node.f[this.column.key]), side));
      if (counts.size) item.sub = [...counts].map(([name, number]) => `${number} ${name}`).join(", ");
    }
    item.label = `module ${item.title}, ${item.sub}; open it`;
  }

  choose(id) {
    if (id.startsWith("module:")) return this.open([...this.path, id.slice(7)]);
    if (id.startsWith("outside:")) return this.open(id.slice(8, -1).split(" / ").filter(part => part));
    return this.select(Number(id.slice(5)));
  }

  select(id) { this.chosen = id; this.mark(); this.page.details(this, this.data.nodes[id]); }

  go(id) { this.path = this.data.nodes[id].path; this.query = ""; this.render(); this.select(id); }

  mark() {
    for (const box of this.host.querySelectorAll(".box")) box.classList.toggle("chosen", box.dataset.id === `node:${this.chosen}`);
    for (const row of this.host.querySelectorAll("tr[data-id]")) row.setAttribute("aria-selected", String(Number(row.dataset.id) === this.chosen));
  }

  status(node) { return this.data.single ? "" : { same: "unchanged", new: "made by a rewrite", removed: "replaced by a rewrite" }[node.s]; }

  text(column, node, side) {
    const value = this.fact(column, node, side);
    if (value === undefined || value === null || value === "") return "not known";
    return Array.isArray(value) ? value[2] : typeof value === "number" ? numeral(value) : value;
  }

  search(query) {
    this.query = query.toLowerCase();
    this.limit = MOST_ROWS;
    this.host.querySelector(".values")?.replaceWith(this.values());
    this.mark();
    return this.query ? this.matches().length : 0;
  }

  matches() {
    const { query, path } = this;
    if (query) return this.data.nodes.filter(n => [n.o, n.d, n.t, n.p, n.path.join("."), ...Object.values(n.f).flat()].join(" ").toLowerCase().includes(query));
    return this.data.nodes.filter(n => n.k !== "constant" && path.every((part, i) => n.path[i] === part));
  }

  values() {
    const rows = this.matches(), columns = this.data.columns, shown = rows.slice(0, this.limit), body = html("tbody", {});
    let group = null;
    for (const node of shown) {
      const name = node.path.join(" › ");
      if (name !== group) { group = name; if (name) body.append(html("tr", { class: "group" }, html("td", { colspan: columns.length + 3 }, name))); }
      body.append(this.row(node, columns));
    }
    const more = rows.length > shown.length ? html("button", { type: "button", onclick: () => { this.limit *= 4; this.host.querySelector(".values").replaceWith(this.values()); this.mark(); } }, `Show more (${rows.length - shown.length} left)`) : null;
    const what = this.query ? `${rows.length} values with “${this.query}”, in all modules` : `${rows.length} values in ${this.path.join(" › ") || this.data.name}; choose one for its source, rule and proof`;
    return html("div", { class: "values" }, html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values" }, html("table", {}, html("caption", {}, what),
      html("thead", {}, html("tr", {}, ...["value", "type", ...columns.map(c => c.title), "at"].map((title, i) => html("th", { scope: "col", title: columns[i - 2]?.help }, title)))), body)), more);
  }

  row(node, columns) {
    const sign = { new: "+ ", removed: "− " }[this.data.single ? "" : node.s];
    const pick = () => this.select(node.id);
    return html("tr", { "data-id": node.id, tabindex: 0, onclick: pick, onkeydown: event => { if (event.key === "Enter") pick(); } },
      html("td", {}, sign ? html("span", { class: `sign ${node.s}`, title: this.status(node) }, sign) : null, [node.o, node.d].filter(x => x).join(" ")),
      html("td", { class: "mono" }, node.t),
      ...columns.map(column => { const colour = this.column && (column === this.column || column.key === this.column.after) && this.colour(node, column === this.column ? "b" : "a"), text = this.text(column, node);
        return html("td", { class: text === "not known" ? "unknown" : "" }, colour ? html("span", { class: "swatch", style: `background:${colour}` }) : null, text); }),
      html("td", { class: "place" }, node.p || ""));
  }
}
