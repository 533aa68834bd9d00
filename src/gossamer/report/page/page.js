"use strict";
// The page of a view: gossamer.show(view) draws it, gossamer.append(delta) goes on with it.

window.gossamer = (() => {
  const { Chart, format } = gossamerChart;
  let view = null, charts = new Map(), seq = -1;

  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value != null && value !== false) element.setAttribute(name, String(value));
    }
    element.append(...children.filter((child) => child != null).map((child) => (typeof child === "object" ? child : String(child))));
    return element;
  }

  const section = (id, title, ...children) => h("section", { id }, h("h2", {}, title), ...children);

  // -- the parts, from the top ---------------------------------------------------------------------------------------

  function header() {
    const theme = h("button", { type: "button", id: "theme", title: "Light or dark", "aria-label": "Switch between light and dark" }, "◐");
    theme.addEventListener("click", () => {
      const dark = document.documentElement.dataset.theme
        ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      recolour();
    });
    return h("header", {},
      h("div", { class: "top" }, h("span", { class: "brand" }, "gossamer"), theme),
      h("h1", { id: "title" }, view.title), h("p", { id: "subtitle" }, view.subtitle));
  }

  function claim() {
    if (!view.claim) return null;
    const sentence = view.claim.charAt(0).toUpperCase() + view.claim.slice(1);
    return h("section", { id: "claim", class: view.private ? "private" : "open" },
      sentence ? h("p", { class: "said" }, sentence) : null, view.meaning ? h("p", { class: "meaning" }, view.meaning) : null);
  }

  function warnings() {
    if (!view.warnings.length) return null;
    return h("section", { id: "warnings" }, h("ul", {}, ...view.warnings.map((one) => h("li", {}, one))));
  }

  function facts() {
    if (!view.facts || !view.facts.length) return null;
    return h("section", { id: "facts" }, ...view.facts.map((one) =>
      h("div", { class: "fact" }, h("span", { class: "name" }, one.name), h("b", {}, one.value), h("span", { class: "beside" }, one.beside))));
  }

  function chartPlace(spec) {
    const reset = h("button", { type: "button", class: "reset" }, "Show all");
    const tools = h("div", { class: "tools" }, reset);
    const place = h("figure", { class: "chart", "data-chart": spec.id },
      h("figcaption", {}, h("div", {}, h("h3", {}, spec.title), spec.unit ? h("p", { class: "unit" }, spec.unit) : null), tools));
    if (spec.band) place.append(h("p", { class: "band" }, spec.band));
    reset.addEventListener("click", () => charts.get(spec.id).reset());
    if (spec.log) {
      const log = h("button", { type: "button", class: "log", "aria-pressed": "true", title: "Logarithmic or linear" }, "log");
      log.addEventListener("click", () => {
        const chart = charts.get(spec.id);
        chart.setLog(!chart.log);
        log.setAttribute("aria-pressed", String(chart.log));
      });
      tools.append(log);
    }
    return place;
  }

  function curves() {
    const kept = view.charts.filter((spec) => spec.series.length);
    if (!kept.length) return null;
    const places = kept.map(chartPlace);
    waiting.push(() => kept.forEach((spec, k) => charts.set(spec.id, new Chart(spec, places[k]))));
    return section("curves", view.kind === "comparison" ? "Curves" : "Learning",
      h("p", { class: "hint" }, "Hover for values, drag to zoom, double-click to see all, click a name to hide it."),
      h("div", { class: "charts" }, ...places));
  }

  function pictures() {
    if (!view.pictures || !view.pictures.length) return null;
    return section("pictures", "Pictures", ...view.pictures.map((one) => h("figure", {}, h("figcaption", {}, h("h3", {}, one.title)), h("img", { src: one.data, alt: one.title }))));
  }

  const near = (a, b) => a != null && b != null && Math.abs(a - b) <= 1e-3 * Math.abs(a);

  // Learners that spend alike are one line and one row; while a run goes on each is its own.
  function spenders() {
    const about = view.epsilon, groups = new Map();
    about.learners.forEach((one, i) => {
      const key = view.live && !view.live.ended ? String(i) : JSON.stringify([one.y, about.budget[i], about.for_ever[i], about.if_all_collude && about.if_all_collude[i]]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(i);
    });
    return [...groups.values()].map((members) => ({ i: members[0], members, name: nameOf(members) }));
  }

  function nameOf(members) {
    const names = members.map((i) => view.epsilon.learners[i].name.replace(/^learner /, ""));
    if (members.length === 1) return view.epsilon.learners[members[0]].name;
    if (members.length === view.epsilon.learners.length) return `all ${members.length} learners`;
    return `learners ${names.slice(0, 6).join(", ")}${names.length > 6 ? ", …" : ""}`;
  }

  function epsilonChart(groups) {
    const about = view.epsilon, lines = [];
    const same = (values) => values.every((v) => near(v, values[0]));
    const budget = same(about.budget), ever = same(about.for_ever);
    if (budget && ever && near(about.budget[0], about.for_ever[0])) lines.push({ name: "budget, and for ever", y: about.budget[0] });
    else {
      if (budget) lines.push({ name: "budget", y: about.budget[0] });
      if (ever) lines.push({ name: "if it goes on for ever", y: about.for_ever[0] });
      if (!budget) new Set(about.budget.filter((v) => v != null)).forEach((v) => lines.push({ name: "budgets", y: v }));
    }
    const series = groups.map((group) => ({ name: group.name, y: about.learners[group.i].y, group: groups.length > 8 ? "learner" : "method" }));
    const unit = about.delta ? `at δ = ${format(about.delta)}` : "";
    return { id: "epsilon", title: "ε over the rounds", unit, log: false, t: about.t, series, lines };
  }

  function epsilon() {
    if (!view.epsilon) return null;
    const about = view.epsilon, groups = spenders(), spec = epsilonChart(groups), place = chartPlace(spec);
    waiting.push(() => charts.set(spec.id, new Chart(spec, place)));
    const some = view.network && about.learners.length < view.network.m ? " Shown are the learners that spend the least, the median and the most." : "";
    const said = `${about.against ? `ε holds ${about.against}.` : ""}${some}`;
    const head = ["", after(about.t[about.t.length - 1]), "", "budget", "for ever", ...(about.if_all_collude ? ["if all others collude"] : [])];
    const rows = groups.map(({ i, name }) => {
      const y = about.learners[i].y, all = about.if_all_collude ? [number(about.if_all_collude[i], "∞")] : [];
      const row = h("tr", { "data-learner": i }, h("th", { scope: "row" }, name), number(null, "∞"), h("td", { class: "meter" }, h("div", { class: "bar" }, h("i", {}))),
        number(about.budget[i], "none"), number(about.for_ever[i], "∞"), ...all);
      fill(row, y[y.length - 1], about.budget[i] ?? about.for_ever[i]);
      return row;
    });
    const table = h("table", { class: "budgets" }, h("thead", {}, h("tr", {}, ...head.map((one, k) => h("th", { scope: "col", class: k === 1 ? "after" : "" }, one)))), h("tbody", {}, ...rows));
    return section("epsilon", "Privacy spent", h("p", { class: "hint" }, said), place, h("div", { class: "wide" }, table));
  }

  function fill(row, spent, most) {
    const cell = row.cells[1];
    cell.dataset.value = spent ?? "";
    cell.textContent = spent == null ? "∞" : format(spent);
    row.querySelector(".bar i").style.width = `${most ? Math.min(100, (100 * (spent ?? most)) / most) : 0}%`;
  }

  const after = (t) => (view.live && !view.live.ended && t != null ? `spent by round ${t.toLocaleString("en")}` : "spent");

  function number(value, absent) {
    return h("td", { class: "number", "data-value": value ?? "" }, value == null ? absent : format(value));
  }

  function network() {
    const about = view.network;
    if (!about) return null;
    const told = h("p", { class: "told", "aria-live": "polite" });
    const drawn = about.edges.length < about.links ? "The links are too many to draw." : gossamerNetwork.pointed(about)
      ? "An arrow points from who sends to who receives." : "The links are too many for arrows.";
    const rest = `${about.m.toLocaleString("en")} learners, ${about.links.toLocaleString("en")} links. ${drawn} A circle is as large as the learner's Perron weight, how far its voice carries (1 on average).`;
    const tell = (one) => {
      told.textContent = one == null ? rest : `Learner ${one.name}: Perron weight ${one.perron.toFixed(3)}, hears ${one.hears}, sends to ${one.sends}.${scoreOf(one.i)}`;
    };
    tell(null);
    return section("network", "Network", h("div", { class: "drawn" }, gossamerNetwork.draw(about, tell)), told);
  }

  function scoreOf(i) {
    const table = view.table;
    if (!table || table.rows.length !== view.network.m || table.columns.length < 2) return "";
    return ` ${table.columns[1].title} ${write(table.rows[i][1], table.columns[1].form)}.`;
  }

  function write(value, form) {
    if (value == null) return "–";
    if (typeof value !== "number") return value;
    if (form === "share" && Math.abs(value) < 100) return value.toFixed(4);
    if (form === "count") return Math.round(value).toLocaleString("en");
    return format(value, form === "number");
  }

  function tableOf(about, id) {
    const cell = (value, k) => {
      const column = about.columns[k] || {};
      if (k === 0) return h("th", { scope: "row" }, write(value, column.form));
      const numeric = typeof value === "number" || value == null || column.form !== "text";
      return h("td", { class: numeric ? "number" : "", "data-value": value ?? "" }, write(value, column.form));
    };
    const row = (cells) => h("tr", {}, ...cells.map(cell));
    const title = (column, k) => h("th", { scope: "col", class: k && column.form !== "text" ? "number" : "" }, column.title, column.unit ? h("small", {}, ` ${column.unit}`) : null);
    return h("div", { class: "wide" }, h("table", { id },
      h("thead", {}, h("tr", {}, ...about.columns.map(title))),
      h("tbody", {}, ...about.rows.map(row)),
      about.foot && about.foot.length ? h("tfoot", {}, ...about.foot.map(row)) : null),
      about.caption ? h("p", { class: "hint" }, about.caption) : null);
  }

  function results() {
    if (!view.table) return null;
    return section("results", "Results", tableOf(view.table, "table"));
  }

  function confusion() {
    if (!view.confusion) return null;
    return section("mistakes", "What is taken for what", tableOf(view.confusion, "confusion"));
  }

  function notes() {
    if (!view.notes.length) return null;
    return section("notes", view.kind === "comparison" ? "What was found" : "To know", h("ul", {}, ...view.notes.map((one) => h("li", {}, one))));
  }

  function copied(text, id) {
    const button = h("button", { type: "button", class: "copy" }, "Copy"), shown = h("pre", { id }, text);
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text); } catch {
        const range = document.createRange();
        range.selectNodeContents(shown);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    return h("div", { class: "copied" }, shown, button);
  }

  function again() {
    if (!view.command && !view.config) return null;
    return section("again", "Run it again", view.command ? copied(view.command, "command") : null,
      view.config ? h("details", {}, h("summary", {}, "The whole configuration"), copied(view.config, "config")) : null);
  }

  function footer() {
    const said = [view.software, view.seed == null ? null : `seed ${view.seed}`, view.when].filter(Boolean);
    return h("footer", {}, said.join(" · "));
  }

  function beside(one, other) {
    return one && other ? h("div", { class: "pair" }, one, other) : one || other;
  }

  function row(one, other) {
    return one && other ? h("div", { class: "row" }, one, other) : one || other;
  }

  // -- show and append -----------------------------------------------------------------------------------------------

  let waiting = []; // charts are drawn when their places have a width

  function show(next) {
    charts.forEach((chart) => chart.destroy());
    charts = new Map();
    waiting = [];
    view = next;
    seq = view.live && view.live.seq != null ? view.live.seq : -1;
    document.title = view.title;
    const spent = epsilon(), links = network(), table = results(), taken = confusion();
    const middle = spent ? [beside(spent, links), row(table, taken)] : view.kind === "comparison" ? [table, links] : [row(links, table), taken];
    const parts = [header(), claim(), warnings(), facts(), curves(), pictures(), ...middle, notes(), again(), footer()];
    document.getElementById("page").replaceChildren(...parts.filter(Boolean));
    waiting.forEach((draw) => draw());
    document.documentElement.dataset.ready = "true";
  }

  function append(delta) {
    if (delta.seq != null && delta.seq <= seq) return; // told before
    if (delta.seq != null) seq = delta.seq;
    if (delta.view) { show(delta.view); return; }
    for (const [id, more] of Object.entries(delta.charts || {})) {
      const chart = charts.get(id);
      if (chart) chart.append(more.t, more.series);
    }
    if (delta.epsilon && charts.has("epsilon")) {
      const about = view.epsilon, groups = spenders();
      charts.get("epsilon").append(delta.epsilon.t, Object.fromEntries(groups.map(({ i, name }) => [name, delta.epsilon.learners[i]])));
      groups.forEach(({ i }) => {
        const row = document.querySelector(`.budgets tr[data-learner="${i}"]`), y = delta.epsilon.learners[i];
        fill(row, y[y.length - 1], about.budget[i] ?? about.for_ever[i]);
      });
      document.querySelector(".budgets .after").textContent = after(delta.epsilon.t[delta.epsilon.t.length - 1]);
    }
    if (delta.facts) {
      view.facts = delta.facts;
      const place = document.getElementById("facts");
      if (place) place.replaceWith(facts());
    }
  }

  function recolour() { charts.forEach((chart) => chart.recolour()); }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  let theme; // as it was before the page was printed, which is on white paper
  window.addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    recolour();
  });
  window.addEventListener("afterprint", () => {
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    recolour();
  });
  return { show, append, charts: () => charts, get view() { return view; }, get seq() { return seq; } };
})();

gossamer.show(JSON.parse(document.getElementById("view").textContent));
