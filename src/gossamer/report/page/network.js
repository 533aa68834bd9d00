"use strict";
// The network: an arrow for every link, a circle for every learner, as large as its voice carries (Perron weight).

const gossamerNetwork = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = 520, EDGE = 84; // of the picture, and room around it for names
  const LETTERS = 14; // of a name
  const FEW = 24; // learners with names in the picture
  const ARROWS = 400; // links with arrows of their own

  function svg(tag, attributes) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, String(value));
    return element;
  }

  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  const longest = (network) => network.names.reduce((most, name) => Math.max(most, name.length), 0);

  function geometry(network) {
    const inner = SIZE - 2 * EDGE, most = Math.max(...network.perron, 1e-12);
    const largest = Math.max(4, Math.min(24, (0.38 * Math.PI * inner) / network.m));
    const places = network.positions.map(([x, y]) => [EDGE + x * inner, EDGE + y * inner]);
    const radii = network.perron.map((u) => largest * Math.max(0.45, Math.sqrt(u / most)));
    return { places, radii };
  }

  function curve(places, radii, from, to, bend) {
    // A bow to the right of the straight way, so that two opposite links are two arrows; it ends at the circles' rims.
    const [x0, y0] = places[from], [x1, y1] = places[to];
    const cx = (x0 + x1) / 2 - bend * (y1 - y0), cy = (y0 + y1) / 2 + bend * (x1 - x0);
    const rim = (x, y, r) => {
      const d = Math.hypot(cx - x, cy - y) || 1;
      return [x + ((cx - x) / d) * r, y + ((cy - y) / d) * r];
    };
    const [a, b] = rim(x0, y0, radii[from] + 1), [c, d] = rim(x1, y1, radii[to] + 5);
    return `M${a.toFixed(1)} ${b.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${c.toFixed(1)} ${d.toFixed(1)}`;
  }

  function draw(network, tell) {
    const { places, radii } = geometry(network);
    const side = network.m > FEW ? 0 : 7 * Math.max(0, Math.min(LETTERS, longest(network)) - 4);
    const root = svg("svg", { viewBox: `${-side} 0 ${SIZE + 2 * side} ${SIZE}`, role: "img", class: "network" });
    root.setAttribute("aria-label", `${network.m} learners and ${network.links} links`);
    const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 5, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" });
    arrow.append(svg("path", { d: "M0 0.8L7 4L0 7.2z", class: "tip" }));
    const defs = svg("defs");
    defs.append(arrow);
    root.append(defs);
    const links = svg("g", { class: "links" });
    const paths = network.edges.map(([from, to]) => curve(places, radii, from, to, 0.12));
    if (pointed(network)) {
      paths.forEach((d, k) => links.append(svg("path", {
        d, class: "link", "marker-end": "url(#arrow)", "data-edge": k, "data-from": network.edges[k][0], "data-to": network.edges[k][1],
      })));
    } else links.append(svg("path", { d: paths.join(""), class: "link many" }));
    root.append(links);
    const nodes = svg("g", { class: "nodes" });
    network.perron.forEach((u, i) => nodes.append(node(network, places[i], radii[i], i, u)));
    root.append(nodes);
    listen(root, network, tell);
    return root;
  }

  function node(network, [x, y], r, i, u) {
    const group = svg("g", { class: "node", "data-learner": i, "data-perron": u });
    group.append(svg("circle", { cx: x, cy: y, r }));
    if (network.m > FEW) return group;
    group.setAttribute("tabindex", "0");
    const name = network.names[i], inside = name.length <= 2 && r >= 9;
    if (inside) {
      const text = svg("text", { x, y, class: "inside", "text-anchor": "middle", "dominant-baseline": "central" });
      text.textContent = name;
      group.append(text);
    }
    const dx = x - SIZE / 2, dy = y - SIZE / 2, d = Math.hypot(dx, dy) || 1;
    const anchor = Math.abs(dx / d) < 0.3 ? "middle" : dx > 0 ? "start" : "end";
    const at = { x: x + (dx / d) * (r + 8), y: y + (dy / d) * (r + 11), "text-anchor": anchor, "dominant-baseline": "central" };
    const outside = svg("text", { ...at, class: "weight" });
    if (!inside) {
      const own = svg("tspan", { class: "name" });
      own.textContent = `${short(name, LETTERS)} `;
      outside.append(own);
    }
    outside.append(document.createTextNode(u.toFixed(2)));
    group.append(outside);
    return group;
  }

  function listen(root, network, tell) {
    const heard = new Map(), told = new Map();
    network.edges.forEach(([from, to]) => {
      heard.set(to, (heard.get(to) || 0) + 1);
      told.set(from, (told.get(from) || 0) + 1);
    });
    const leave = () => {
      root.classList.remove("chosen");
      root.querySelectorAll(".own").forEach((one) => one.classList.remove("own"));
      tell(null);
    };
    const enter = (group) => {
      leave();
      const i = Number(group.dataset.learner);
      root.classList.add("chosen");
      group.classList.add("own");
      root.querySelectorAll(`.link[data-from="${i}"], .link[data-to="${i}"]`).forEach((one) => one.classList.add("own"));
      tell({ i, name: network.names[i], perron: network.perron[i], hears: heard.get(i) || 0, sends: told.get(i) || 0 });
    };
    root.querySelectorAll(".node").forEach((group) => {
      group.addEventListener("pointerenter", () => enter(group));
      group.addEventListener("pointerleave", leave);
      group.addEventListener("focus", () => enter(group));
      group.addEventListener("blur", leave);
    });
  }

  const pointed = (network) => network.edges.length <= ARROWS;

  return { draw, pointed };
})();
