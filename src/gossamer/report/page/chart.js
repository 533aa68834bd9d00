"use strict";
// Curves over the rounds: hover for values, drag to zoom, double-click to see all, click a name to hide its curve.

const gossamerChart = (() => {
  const SAMPLE = 1500; // values of a curve that decide where it is seen
  const OUTER = 0.02, ROOM = 0.5; // a window holds all but the outermost 2 % at either end, and half its height more
  const LEAST = 1e-12; // below it a logarithmic axis has nothing to tell
  const BELOW = 2; // decades below the others in which a loose curve is seen
  const POINTS = 30; // curves of fewer values show each of them

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A number to four digits; `whole` keeps zeros at their end, so that the numbers of a column are of one length.
  function format(value, whole) {
    if (value == null || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value.toPrecision(3)).toExponential();
    if (Number.isInteger(value)) return value.toLocaleString("en");
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return whole ? value.toPrecision(4) : String(Number(value.toPrecision(4)));
  }

  // What stands beside an axis; of a logarithmic one the powers of ten, and 2 and 5 where there are few of these.
  function labels(at, log) {
    const shown = at.filter((v) => v != null && v > 0), few = log && shown.length && shown[shown.length - 1] / shown[0] < 300;
    const plain = (v) => "125".slice(0, few ? 3 : 1).includes(v.toExponential(0)[0]) && Math.abs(v / Number(v.toExponential(0)) - 1) < 1e-6;
    return at.map((v) => (v == null || (log && !plain(v)) ? "" : format(v)));
  }

  function columnsOf(spec) {
    // One column of numbers for every curve, edge of a band and level.
    const columns = [];
    let method = 0;
    for (const one of spec.series) {
      const own = { name: one.name, kind: "curve", group: one.group, dashed: one.dashed, loose: one.loose, y: one.y, ink: method };
      if (one.group !== "learner") method += 1;
      columns.push(own);
      if (one.low && one.high) {
        columns.push({ name: one.name, kind: "high", of: own, y: one.high });
        columns.push({ name: one.name, kind: "low", of: own, y: one.low });
      }
    }
    for (const line of spec.lines || []) columns.push({ name: line.name, kind: "level", level: line.y });
    return columns;
  }

  function ink(column, learners) {
    if (column.of) return ink(column.of, learners);
    if (column.kind === "level") return colour("--ink-soft");
    if (column.group === "learner") return colour(learners > 1 ? "--curve-learner" : "--curve-0");
    return colour(`--curve-${column.ink % 8}`);
  }

  class Chart {
    constructor(spec, place) {
      this.spec = spec;
      this.place = place;
      this.log = Boolean(spec.log);
      this.hidden = new Set();
      this.columns = columnsOf(spec);
      this.learners = spec.series.filter((one) => one.group === "learner").length;
      this.t = Array.from(spec.t);
      for (const column of this.columns) {
        column.values = column.kind === "level" ? this.t.map(() => column.level) : Array.from(column.y);
      }
      this.zoomed = false;
      this.dirty = false;
      this.body = document.createElement("div");
      this.body.className = "chart-body";
      this.legend = document.createElement("div");
      this.legend.className = "legend";
      place.append(this.body, this.legend);
      this.draw();
      this.sized = new ResizeObserver(() => this.fit());
      this.sized.observe(this.body);
    }

    data() {
      const shown = (v) => (v == null || !Number.isFinite(v) || (this.log && v < LEAST) ? null : v);
      return [this.t, ...this.columns.map((column) => (this.log ? column.values.map(shown) : column.values))];
    }

    draw() {
      if (this.plot) this.plot.destroy();
      this.plot = new uPlot(this.options(), this.data(), this.body);
      this.zoomed = false;
      this.mark();
      this.list();
    }

    options() {
      const soft = () => colour("--ink-soft");
      const grid = { stroke: () => colour("--rule"), width: 1 };
      const axis = { stroke: soft, grid, ticks: { show: false }, font: '12px system-ui, sans-serif', gap: 6 };
      const bands = this.columns.flatMap((column, k) =>
        column.kind === "high" ? [{ series: [k + 1, k + 2], fill: () => colourMix(ink(column, 1), 0.14) }] : []);
      return {
        width: this.width(), height: this.height(), legend: { show: false }, bands,
        padding: [12, 22, 0, 0],
        cursor: { drag: { x: true, y: false, setScale: true }, points: { size: 7 }, focus: { prox: 24 } },
        focus: { alpha: this.learners > 1 ? 0.35 : 1 },
        scales: {
          x: { time: false, distr: this.spec.logx ? 3 : 1 },
          y: { distr: this.log ? 3 : 1, range: (u, low, high) => this.window(low, high) },
        },
        axes: [
          { ...axis, size: 34, space: 64, values: (u, at) => labels(at, this.spec.logx), label: this.spec.x || "rounds", labelSize: 18, labelFont: "12px system-ui, sans-serif" },
          { ...axis, size: 58, space: 36, values: (u, at) => labels(at, this.log) },
        ],
        series: [{}, ...this.columns.map((column) => this.curve(column))],
        hooks: {
          drawClear: [(u) => this.shade(u)],
          setCursor: [(u) => this.tell(u.cursor.idx)],
          setScale: [(u, key) => key === "x" && this.mark()],
        },
      };
    }

    curve(column) {
      const edge = column.kind === "low" || column.kind === "high";
      const few = () => this.t.length <= POINTS && column.kind === "curve";
      return {
        show: !this.hidden.has(column.name), stroke: edge ? undefined : () => ink(column, this.learners),
        width: edge ? 0 : column.group === "learner" && this.learners > 1 ? 1 : column.kind === "level" ? 1.25 : 2,
        dash: column.kind === "level" ? [3, 4] : column.dashed ? [7, 4] : undefined,
        points: { show: few, size: 5 }, spanGaps: false,
      };
    }

    window(low, high) {
      // Where curves are to be seen: a spike beyond is cut off, it would flatten all else.
      if (low == null || high == null || !Number.isFinite(low) || !Number.isFinite(high)) return this.log ? [0.1, 1] : [0, 1];
      const into = this.log ? Math.log10 : (v) => v, back = this.log ? (v) => 10 ** v : (v) => v;
      let [least, most] = this.zoomed ? [into(low), into(high)] : this.core(into, into(low), into(high));
      const margin = 0.05 * Math.max(most - least, 1e-3 * Math.max(Math.abs(most), Math.abs(least)), 1e-12);
      return [back(least - margin), back(most + margin)];
    }

    core(into, low, high) {
      const firm = [], loose = [], kept = [];
      const counts = (v) => v != null && Number.isFinite(v) && (!this.log || v >= LEAST);
      for (const column of this.columns) {
        if (this.hidden.has(column.name)) continue;
        if (column.kind === "level") { if (counts(column.level)) kept.push(into(column.level)); continue; }
        const every = Math.max(1, Math.ceil(column.values.length / SAMPLE)), values = column.loose ? loose : firm;
        for (let k = 0; k < column.values.length; k += every) if (counts(column.values[k])) values.push(into(column.values[k]));
        const last = column.values[column.values.length - 1];
        if (counts(last) && !column.loose) kept.push(into(last));
      }
      const seen = firm.length ? firm : loose;
      if (!seen.length) return [low, high];
      seen.sort((a, b) => a - b);
      const at = (share) => seen[Math.round(share * (seen.length - 1))];
      const room = ROOM * Math.max(at(1 - OUTER) - at(OUTER), 1e-12);
      const least = Math.min(Math.max(at(OUTER) - room, seen[0]), ...kept);
      const most = Math.max(Math.min(at(1 - OUTER) + room, seen[seen.length - 1]), ...kept);
      if (!firm.length) return [least, most];
      const under = loose.reduce((a, v) => Math.min(a, v), least), over = loose.reduce((a, v) => Math.max(a, v), most);
      return [Math.max(under, least - (this.log ? BELOW : 0)), over];
    }

    shade(u) {
      if (!this.spec.shaded) return;
      const [from, to] = this.spec.shaded.map((t) => u.valToPos(t, "x", true));
      const left = Math.max(from, u.bbox.left), right = Math.min(to, u.bbox.left + u.bbox.width);
      if (right <= left) return;
      u.ctx.save();
      u.ctx.fillStyle = colour("--shade");
      u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
      u.ctx.restore();
    }

    // -- the names under the curves, with their values at the cursor or at the end ----------------------------------

    list() {
      this.legend.replaceChildren();
      this.entries = [];
      const count = (name) => this.columns.filter((column) => !column.of && column.name === name).length;
      for (const column of this.columns) {
        if (column.of || this.entries.some((entry) => entry.column.name === column.name)) continue;
        const button = document.createElement("button"), swatch = document.createElement("i");
        const name = document.createElement("span"), value = document.createElement("b");
        button.type = "button";
        button.dataset.series = column.name;
        button.setAttribute("aria-pressed", String(!this.hidden.has(column.name)));
        button.title = "Click to hide or show";
        swatch.className = column.kind === "level" ? "dotted" : column.dashed ? "dashed" : "";
        name.textContent = column.name;
        button.append(swatch, name, value);
        button.addEventListener("click", () => this.toggle(column.name));
        this.legend.append(button);
        this.entries.push({ column, button, swatch, value: count(column.name) > 1 ? null : value });
      }
      if (this.spec.shaded) {
        const told = document.createElement("span"), box = document.createElement("i");
        told.className = "shaded";
        told.append(box, this.spec.shaded_is || "");
        this.legend.append(told);
      }
      const when = document.createElement("span");
      when.className = "when";
      this.legend.append(when);
      this.when = when;
      this.paint();
      this.tell(null);
    }

    paint() {
      for (const { column, swatch } of this.entries) swatch.style.borderColor = ink(column, this.learners);
    }

    tell(idx) {
      if (!this.entries) return;
      const at = idx == null ? this.t.length - 1 : idx;
      for (const { column, button, value } of this.entries) {
        const number = column.kind === "level" ? column.level : column.values[at];
        if (value) value.textContent = format(number);
        button.dataset.value = number == null ? "" : String(number);
      }
      const x = this.spec.x || "round";
      this.when.textContent = this.t.length ? `${idx == null ? "last, at" : "at"} ${x} ${format(this.t[at])}` : "";
    }

    toggle(name) {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      this.plot.batch(() => this.columns.forEach((column, k) => {
        if (column.name === name) this.plot.setSeries(k + 1, { show: !this.hidden.has(name) });
      }));
      for (const { column, button } of this.entries) {
        button.setAttribute("aria-pressed", String(!this.hidden.has(column.name)));
      }
    }

    // -- size, zoom, colours ----------------------------------------------------------------------------------------

    width() { return Math.max(240, Math.floor(this.body.clientWidth || this.place.clientWidth || 600)); }
    height() { return this.width() < 480 ? 240 : 300; }
    fit() { if (this.width() !== this.plot.width) this.plot.setSize({ width: this.width(), height: this.height() }); }
    recolour() { this.plot.redraw(false); this.paint(); }

    mark() {
      if (!this.plot || !this.t.length) return;
      const { min, max } = this.plot.scales.x;
      this.zoomed = min != null && (min > this.t[0] || max < this.t[this.t.length - 1]);
      this.place.dataset.zoomed = String(this.zoomed);
    }

    reset() {
      this.zoomed = false;
      this.plot.setData(this.data(), true);
      this.mark();
    }

    setLog(log) { this.log = log; this.draw(); }

    // -- live -------------------------------------------------------------------------------------------------------

    append(t, series) {
      const known = this.t.length ? this.t[this.t.length - 1] : -Infinity;
      t.forEach((at, k) => {
        if (at <= known) return;
        this.t.push(at);
        for (const column of this.columns) {
          const own = column.of ? series[`${column.name} ${column.kind}`] : series[column.name];
          column.values.push(column.kind === "level" ? column.level : own && own[k] !== undefined ? own[k] : null);
        }
      });
      if (this.dirty) return;
      this.dirty = true;
      requestAnimationFrame(() => this.flush());
    }

    flush() {
      this.dirty = false;
      this.plot.setData(this.data(), !this.zoomed);
      if (this.zoomed) this.plot.redraw();
      if (this.plot.cursor.idx == null) this.tell(null);
    }

    destroy() { this.sized.disconnect(); this.plot.destroy(); }
  }

  function colourMix(value, alpha) {
    const digits = value.replace("#", "");
    const [r, g, b] = [0, 2, 4].map((k) => parseInt(digits.slice(k, k + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  }

  return { Chart, format };
})();
