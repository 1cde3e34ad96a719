"use strict";
// Layers of boxes: items in the order of the program, each below what it reads. Long edges go through empty slots.
const GAP_X = 22, GAP_Y = 34, SLOT = 14, SWEEPS = 6;

// The items, each behind what it reads; where modules read each other, the first of the program goes first.
function sorted(items, edges) {
  const left = new Map(items.map(item => [item.id, new Set()])), users = new Map(items.map(item => [item.id, []])), found = [];
  for (const [u, v] of edges) { left.get(v).add(u); users.get(u).push(v); }
  const rest = new Map(items.map(item => [item.id, item])), ready = [];
  const take = id => { found.push(rest.get(id)); rest.delete(id); for (const v of users.get(id)) if (left.get(v).delete(id) && !left.get(v).size && rest.has(v)) ready.push(v); };
  for (const item of items) if (!left.get(item.id).size) ready.push(item.id);
  while (rest.size) {
    while (ready.length) { const id = ready.shift(); if (rest.has(id)) take(id); }
    if (rest.size) take(rest.keys().next().value);
  }
  return found;
}

function layered(given, edges) {
  const items = sorted(given, edges), at = new Map(items.map((item, index) => [item.id, index]));
  const down = edges.filter(([u, v]) => at.get(u) < at.get(v)), back = edges.filter(([u, v]) => at.get(u) >= at.get(v));
  const users = new Map(items.map(item => [item.id, []])), uses = new Map(items.map(item => [item.id, []]));
  for (const [u, v] of down) { users.get(u).push(v); uses.get(v).push(u); }
  const rank = new Map();
  for (const item of items) rank.set(item.id, Math.max(-1, ...uses.get(item.id).map(u => rank.get(u))) + 1);
  // what reads nothing stands right above its first user
  for (const item of items) {
    if (!uses.get(item.id).length && users.get(item.id).length) rank.set(item.id, Math.min(...users.get(item.id).map(v => rank.get(v))) - 1);
  }
  const layers = [], slots = new Map(items.map(item => [item.id, { ...item, up: [], down: [] }])), routes = [];
  const put = (slot, r) => { (layers[r] ||= []).push(slot); };
  for (const item of items) put(slots.get(item.id), rank.get(item.id));
  for (const [u, v] of down) {
    let last = slots.get(u);
    const route = [last];
    for (let r = rank.get(u) + 1; r < rank.get(v); r++) {
      const slot = { w: SLOT, h: 0, up: [], down: [], empty: true };
      put(slot, r); last.down.push(slot); slot.up.push(last); route.push(slot); last = slot;
    }
    const end = slots.get(v);
    last.down.push(end); end.up.push(last); route.push(end); routes.push(route);
  }
  for (let i = 0; i < layers.length; i++) layers[i] ||= [];
  layers.forEach(layer => layer.forEach((slot, i) => { slot.place = i; }));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const upward = sweep % 2 === 1, order = upward ? [...layers].reverse() : layers;
    for (const layer of order) {
      for (const slot of layer) { const near = upward ? slot.down : slot.up; slot.key = near.length ? near.reduce((sum, n) => sum + n.place, 0) / near.length : slot.place; }
      layer.sort((a, b) => a.key - b.key);
      layer.forEach((slot, i) => { slot.place = i; });
    }
  }
  return placed(layers, slots, routes, back);
}

function placed(layers, slots, routes, back) {
  for (const layer of layers) { let x = 0; for (const slot of layer) { slot.x = x + slot.w / 2; x += slot.w + GAP_X; } for (const slot of layer) slot.x -= (x - GAP_X) / 2; }
  for (let sweep = 0; sweep < 10; sweep++) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      for (const slot of layer) { const near = sweep % 2 ? slot.down : slot.up; slot.want = near.length ? near.reduce((sum, n) => sum + n.x, 0) / near.length : slot.x; }
      spread(layer);
    }
  }
  let y = 0;
  for (const layer of layers) { const h = Math.max(0, ...layer.map(slot => slot.h)); for (const slot of layer) slot.y = y + h / 2; y += h + GAP_Y; }
  const all = layers.flat(), left = Math.min(0, ...all.map(s => s.x - s.w / 2)), right = Math.max(0, ...all.map(s => s.x + s.w / 2));
  for (const slot of all) slot.x -= left;
  return { slots, routes, back: back.map(([u, v]) => [slots.get(u), slots.get(v)]), width: right - left + (back.length ? 28 : 0), height: Math.max(y - GAP_Y, 0) };
}

// The wanted places, moved apart as little as their order allows: runs that touch move as one.
function spread(layer) {
  const runs = [];
  for (const slot of layer) {
    let run = { slots: [slot], width: slot.w, sum: slot.want - slot.w / 2, count: 1 };
    run.start = run.sum;
    while (runs.length && runs.at(-1).start + runs.at(-1).width + GAP_X > run.start) {
      const before = runs.pop(), offset = before.width + GAP_X;
      run = { slots: [...before.slots, ...run.slots], width: offset + run.width, sum: before.sum + run.sum - offset * run.count, count: before.count + run.count };
      run.start = run.sum / run.count;
    }
    runs.push(run);
  }
  for (const run of runs) { let x = run.start; for (const slot of run.slots) { slot.x = x + slot.w / 2; x += slot.w + GAP_X; } }
}

// Drawing ------------------------------------------------------------------------------------------------------------
const SVG = "http://www.w3.org/2000/svg";
let drawings = 0;

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function html(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

const shortened = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

// An item: id, title, sub, kind (classes), fill, label for screen readers; the size follows from the texts.
function sized(item) {
  const title = shortened(item.title, 30), sub = shortened(item.sub || "", 34);
  return { ...item, title, sub, w: Math.max(84, 7.3 * title.length + 24, 6.3 * sub.length + 24), h: sub ? 42 : 28 };
}

function drawn(items, edges, { choose, label }) {
  const made = layered(items.map(sized), edges), tip = `tip${drawings++}`, pad = 8;
  const picture = svg("svg", { width: made.width + 2 * pad, height: made.height + 2 * pad, viewBox: `${-pad} ${-pad} ${made.width + 2 * pad} ${made.height + 2 * pad}`, role: choose ? "group" : "presentation", "aria-label": label });
  // a wide drawing shrinks to its pane, as far as it can be read
  picture.style.cssText = `max-width:100%;min-width:${Math.round(0.62 * made.width)}px;height:auto`;
  picture.append(svg("defs", {}, svg("marker", { id: tip, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z" }))));
  for (const route of made.routes) picture.append(svg("path", { class: "wire", d: curve(route), "marker-end": `url(#${tip})` }));
  for (const [u, v] of made.back) {
    const side = Math.max(u.x + u.w / 2, v.x + v.w / 2) + 18;
    picture.append(svg("path", { class: "wire", d: `M${u.x + u.w / 2} ${u.y}C${side} ${u.y} ${side} ${v.y} ${v.x + v.w / 2} ${v.y}`, "marker-end": `url(#${tip})`, "stroke-dasharray": "3 3" }));
  }
  for (const slot of made.slots.values()) picture.append(box(slot, choose));
  return picture;
}

function box(slot, choose) {
  const { x, y, w, h } = slot;
  const made = svg("g", { class: `box ${slot.kind || ""}`, "data-id": slot.id, tabindex: choose ? 0 : null, role: choose ? "button" : null, "aria-label": slot.label },
    svg("title", {}, slot.label || slot.title), svg("rect", { x: x - w / 2, y: y - h / 2, width: w, height: h, rx: 7 }),
    svg("text", { x, y: y + (slot.sub ? -3 : 4.5), "text-anchor": "middle", "font-weight": 600 }, slot.title));
  if (slot.sub) made.append(svg("text", { x, y: y + 13, "text-anchor": "middle", class: "sub" }, slot.sub));
  if (slot.fill) { made.querySelector("rect").style.fill = slot.fill.ground; made.querySelectorAll("text").forEach(text => { text.style.fill = slot.fill.ink; }); }
  if (choose) {
    made.addEventListener("click", () => choose(slot.id));
    made.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(slot.id); } });
  }
  return made;
}

function curve(route) {
  const first = route[0], points = [[first.x, first.y + first.h / 2]];
  for (const slot of route.slice(1, -1)) points.push([slot.x, slot.y]);
  const last = route.at(-1);
  points.push([last.x, last.y - last.h / 2]);
  let path = `M${points[0]}`;
  for (let i = 1; i < points.length; i++) { const [a, b] = points[i - 1], [c, d] = points[i], middle = (b + d) / 2; path += `C${a} ${middle} ${c} ${middle} ${c} ${d}`; }
  return path;
}
