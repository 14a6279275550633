// The script of the dashboard: it takes over new versions of a page that is open, and draws the
// picture of the community from the table below it.
"use strict";

// morph makes an element like another one. Elements with the same id stay the same, so that focus,
// what was typed and movements outlive it. It leaves alone what has data-keep.
// A form is asked for the attribute: its property id would be the field of that name.
const idOf = (node) => node?.getAttribute?.("id");
function morph(old, next) {
  for (const { name } of [...old.attributes]) if (name !== "open" && !next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const byID = new Map([...old.children].filter(idOf).map((e) => [idOf(e), e]));
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    const same = idOf(child) ? byID.get(idOf(child)) : at && !idOf(at) && at.nodeName === child.nodeName && at;
    if (!same) { old.insertBefore(child, at); continue; }
    if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
    if (child.nodeType !== 1) { if (same.data !== child.data) same.data = child.data; }
    else if (!same.hasAttribute("data-keep")) morph(same, child);
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

// follow asks for new versions of the page while it is in front: browsers allow few connections.
let source = null;
function follow() {
  if (document.hidden) { source?.close(); source = null; return; }
  if (source) return;
  const say = (text) => { document.getElementById("connection").textContent = text; };
  source = new EventSource(location.href);
  source.onmessage = (event) => {
    const next = new DOMParser().parseFromString(event.data, "text/html");
    document.title = next.title;
    morph(document.body, next.body);
    say("");
    draw();
  };
  source.onerror = () => {
    say("No connection to the node. Trying again.");
    if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(follow, 3000); }
  };
}

// draw draws each machine as a box with its tree of agents, and a line to an agent on another machine
// from the one that spawned it. What was drawn before moves to its new place.
const shown = 10;
function draw() {
  const svg = document.querySelector("#picture svg");
  if (!svg) return;
  const drawn = new Set();
  const element = (id, tag, parent, names) => {
    let e = svg.querySelector("#" + CSS.escape(id));
    if (!e) { e = document.createElementNS(svg.namespaceURI, tag); e.id = id; parent.append(e); }
    for (const [name, value] of Object.entries(names)) if (e.getAttribute(name) !== String(value)) e.setAttribute(name, value);
    drawn.add(e);
    return e;
  };
  const text = (id, parent, x, y, value, cls = "") => {
    const e = element(id, "text", parent, { x, y, class: cls });
    if (e.textContent !== value) e.textContent = value;
  };
  const cut = (s, n) => (s.length > n ? s.slice(0, n - 1) + "…" : s);
  const gap = 24, columns = Math.max(1, Math.floor((svg.clientWidth + gap) / (250 + gap)));
  const width = Math.min(400, (svg.clientWidth + gap) / columns - gap), bottoms = Array(columns).fill(0), places = new Map();
  const far = element("far", "g", svg, {}); // the first child: boxes cover the lines between machines
  for (const row of document.querySelectorAll("tr.machine")) {
    const m = row.dataset, agents = [...row.parentElement.querySelectorAll("tr.agent")];
    const column = bottoms.indexOf(Math.min(...bottoms)), x = column * (width + gap), y = bottoms[column];
    const height = 52 + 28 * Math.max(1, Math.min(agents.length, shown + 1));
    bottoms[column] += height + gap;
    const box = element("m-" + m.machine, "g", svg, { class: "machine " + (m.state === "self" || m.state === "connected" ? "" : "remote") });
    box.style.transform = `translate(${x}px, ${y}px)`;
    element("r-" + m.machine, "rect", box, { width, height, rx: 14 });
    text("t-" + m.machine, box, 18, 30, cut(m.name, 26));
    const rest = agents.length > shown ? `and ${agents.length - shown} more` : agents.length ? "" : m.note || "no agents";
    if (rest) text("o-" + m.machine, box, 18, height - 20, rest, "more");
    agents.slice(0, shown).forEach((a, i) => places.set(a.dataset.agent, { ...a.dataset, box, left: x, top: y, x: x + 26 + 22 * a.dataset.depth, y: y + 56 + 28 * i }));
  }
  for (const [id, a] of places) {
    const up = places.get(a.parent);
    if (up) {
      const near = up.box === a.box, [x, y, toX, toY] = near ? [up.x - a.left, up.y - a.top + 8, a.x - a.left - 8, a.y - a.top] : [up.x, up.y, a.x, a.y];
      const d = near ? `M${x} ${y} C${x} ${toY} ${x} ${toY} ${toX} ${toY}` : `M${x} ${y} C${(x + toX) / 2} ${y} ${(x + toX) / 2} ${toY} ${toX} ${toY}`;
      element("l-" + id, "path", near ? a.box : far, { d }).style.setProperty("d", `path("${d}")`);
    }
    const link = element("a-" + id, "a", svg, { href: "/agents/" + encodeURIComponent(id), class: a.state, tabindex: -1 });
    link.style.transform = `translate(${a.x}px, ${a.y}px)`;
    element("c-" + id, "circle", link, { r: 6 });
    text("n-" + id, link, 14, 5, cut(a.name, 24 - 2 * a.depth));
  }
  svg.querySelectorAll("g, a, path, circle, rect, text").forEach((e) => { if (!drawn.has(e)) e.remove(); });
  svg.style.height = Math.max(0, ...bottoms) + "px";
}

addEventListener("resize", draw);
draw();
if (document.body.hasAttribute("data-live")) { document.addEventListener("visibilitychange", follow); follow(); }
