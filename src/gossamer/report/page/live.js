"use strict";
// A page that goes on: takes what the server tells, says how the run stands, and shows messages on their way.

window.gossamerLive = (() => {
  const SILENT = 15000; // milliseconds without a word, of which there is one every five seconds
  const RETRY = [500, 1000, 2000, 5000]; // milliseconds before a connection that was refused is tried again
  const TRAVEL = 1000, TOGETHER = 80; // milliseconds that a message takes, and how many are seen at once
  const FRAME = 30; // milliseconds: motion is for the eye, and costs the machine that may run the learners
  const WINDOW = 6; // seconds over which speed is measured
  const STANDS = 3000; // milliseconds without a round, after which nobody can say how long it will take
  const FEW = 60; // learners of whom each is told; of more those only that do not run
  const WORDS = { running: "running", waiting: "waiting", late: "late", stopped: "stopped", failed: "failed", done: "done", unknown: "not known" };

  let live = {}, last = "", source = null, heard = 0, refused = 0, connected = false, speeds = [];
  let moved = { t: -1, at: 0 }; // the newest round, and when it came
  let strip = null;

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text != null) element.textContent = text;
    return element;
  }

  // -- how the run stands --------------------------------------------------------------------------------------------

  function mount() {
    if (strip && strip.isConnected) return;
    strip = make("section");
    strip.id = "live";
    strip.setAttribute("aria-live", "off");
    const line = make("div", "line"), track = make("div", "track");
    track.append(make("i"));
    line.append(make("span", "dot"), make("b", "state"), make("span", "round"), make("span", "speed"));
    strip.append(line, track, make("p", "said"), make("ul", "learners"));
    document.querySelector("#page > header").after(strip);
    document.getElementById("page").classList.add("live");
    const network = document.getElementById("network"), curves = document.getElementById("curves");
    if (network && curves) { // side by side, where there is room
      const pair = network.closest(".pair, .row");
      curves.before(network);
      if (pair) pair.replaceWith(...pair.children);
    }
    drawn = new Map();
  }

  function standing() {
    if (live.ended) return live.failed ? ["failed", "Failed"] : ["ended", "Ended"];
    if (!connected) return ["lost", "Connection lost"];
    return live.steps && live.t != null && live.t >= 0 ? ["running", "Live"] : ["waiting", "Preparing"];
  }

  function tell() {
    mount();
    const [state, word] = standing(), steps = live.steps || 0, t = Math.max(0, live.t || 0);
    strip.dataset.state = state;
    strip.dataset.t = String(t);
    strip.querySelector(".state").textContent = word;
    const number = (n) => n.toLocaleString("en");
    strip.querySelector(".round").textContent = steps ? `round ${number(t)} of ${number(steps)}` : "";
    strip.querySelector(".speed").textContent = state === "running" && !held() ? pace(t, steps) : "";
    strip.querySelector(".track i").style.width = `${steps ? (100 * t) / steps : 0}%`;
    const said = state === "lost" ? "What is missing comes as soon as it is back; if the command has ended, this is all there is." : live.said || "";
    strip.querySelector(".said").textContent = said;
    learners();
    document.title = document.title.replace(/^(\d+ % · )?/, steps && !live.ended ? `${Math.floor((100 * t) / steps)} % · ` : "");
  }

  const held = () => (live.learners || []).some((one) => ["late", "stopped", "failed"].includes(one.state));

  function pace(t, steps) {
    const first = speeds[0], newest = speeds[speeds.length - 1];
    if (!first || Date.now() - moved.at > STANDS || newest.seconds <= first.seconds || newest.t <= first.t) return "";
    const speed = (newest.t - first.t) / (newest.seconds - first.seconds), left = (steps - t) / speed;
    const per = speed >= 10 ? `${Math.round(speed).toLocaleString("en")} rounds a second` : `${speed.toFixed(1)} rounds a second`;
    const time = left < 90 ? `${Math.ceil(left)} s` : left < 5400 ? `${Math.round(left / 60)} min` : `${(left / 3600).toFixed(1)} h`;
    return `${per}, about ${time} left`;
  }

  function learners() {
    const all = live.learners || [], list = strip.querySelector(".learners");
    const shown = all.map((one, i) => ({ ...one, i })).filter((one) => all.length <= FEW || !["running", "done"].includes(one.state)).slice(0, FEW);
    while (list.children.length > shown.length) list.lastChild.remove();
    shown.forEach((one, k) => {
      let item = list.children[k];
      if (!item) {
        item = make("li");
        item.append(make("span", "dot"), make("b"), make("span", "how"));
        list.append(item);
      }
      item.dataset.learner = one.i;
      item.dataset.state = one.state || "unknown";
      item.children[1].textContent = one.name ?? String(one.i);
      const word = WORDS[one.state] || one.state, round = one.t == null ? "" : `round ${one.t.toLocaleString("en")}`;
      const well = ["running", "done", "unknown"].includes(one.state); // of others the reason comes first
      const reason = one.state === "waiting" ? one.said : `${word}: ${one.said}`;
      item.children[2].textContent = well || !one.said ? [word, round, one.said].filter(Boolean).join(", ") : reason;
    });
    for (const node of document.querySelectorAll(".network .node")) {
      const one = all[Number(node.dataset.learner)];
      if (one) node.dataset.state = one.state;
    }
  }

  // -- messages on their way -----------------------------------------------------------------------------------------

  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let drawn = new Map(); // edge -> its message under way
  let moving = false, frame = 0;

  function seen(element) {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  function carry(messages) {
    const picture = document.querySelector("svg.network");
    if (!messages || !picture || document.hidden || calm.matches || !seen(picture)) return;
    const links = [...document.querySelectorAll(".network .link[data-edge]")];
    let chosen = messages === "all" ? links : messages.map((k) => links[k]).filter(Boolean);
    if (chosen.length > TOGETHER) chosen = chosen.filter(() => Math.random() < TOGETHER / chosen.length);
    const now = performance.now();
    for (const link of chosen) {
      if (drawn.has(link)) continue;
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      dot.setAttribute("class", "message");
      dot.setAttribute("r", "3");
      dot.setAttribute("cx", "-99");
      link.after(dot);
      drawn.set(link, { dot, length: link.getTotalLength(), start: now + 700 * Math.random() });
    }
    if (!moving && drawn.size) { moving = true; requestAnimationFrame(move); }
  }

  function move(now) {
    if (now - frame < FRAME) { requestAnimationFrame(move); return; }
    frame = now;
    for (const [link, { dot, length, start }] of drawn) {
      const share = (now - start) / TRAVEL;
      if (share >= 1 || !link.isConnected) { dot.remove(); drawn.delete(link); continue; }
      if (share < 0) continue;
      const at = link.getPointAtLength(length * share * share * (3 - 2 * share));
      dot.setAttribute("cx", at.x);
      dot.setAttribute("cy", at.y);
      dot.style.opacity = String(Math.min(1, 6 * share, 6 * (1 - share)));
    }
    moving = drawn.size > 0;
    if (moving) requestAnimationFrame(move);
  }

  // -- what the server tells -----------------------------------------------------------------------------------------

  function take(told) {
    for (const name of ["t", "seconds", "said", "failed", "ended"]) if (name in told) live[name] = told[name];
    if (told.learners) live.learners = told.learners.map((one, i) => ({ ...((live.learners || [])[i] || {}), ...one }));
    if (live.t > moved.t) moved = { t: live.t, at: Date.now() };
    if (told.seconds != null && told.t != null) {
      speeds.push({ t: told.t, seconds: told.seconds });
      while (speeds.length > 2 && speeds[0].seconds < told.seconds - WINDOW) speeds.shift();
    }
  }

  function showWhole(view) {
    const at = scrollY;
    gossamer.show(view);
    scrollTo(0, at);
  }

  const handlers = {
    view: (view) => { live = view.live || {}; speeds = []; showWhole(view); },
    delta: (delta) => {
      if (delta.view) { live = { ...live, ...delta.view.live }; }
      const at = scrollY;
      gossamer.append(delta);
      if (delta.view) scrollTo(0, at);
      take(delta);
      carry(delta.messages);
    },
  };

  function connect() {
    const query = new URLSearchParams(location.search); // its token, where it has one
    query.set("after", last);
    source = new EventSource(`events?${query}`);
    heard = Date.now();
    const listen = (kind, handle) => source.addEventListener(kind, (event) => {
      heard = Date.now();
      connected = true;
      refused = 0;
      if (event.lastEventId) last = event.lastEventId;
      if (handle) handle(JSON.parse(event.data));
      if (live.ended) source.close();
      tell();
    });
    listen("view", handlers.view);
    listen("delta", handlers.delta);
    listen("beat", null);
    source.onopen = () => { heard = Date.now(); connected = true; tell(); };
    source.onerror = () => {
      connected = false;
      tell();
      if (source.readyState === EventSource.CLOSED && !live.ended) { // refused: a browser does not try again by itself
        setTimeout(connect, RETRY[Math.min(refused, RETRY.length - 1)]);
        refused += 1;
      }
    };
  }

  function start() {
    live = gossamer.view.live || {};
    last = live.id || "";
    connected = true;
    tell();
    if (live.ended) return;
    connect();
    setInterval(() => {
      if (live.ended || Date.now() - heard < SILENT) return;
      source.close(); // a connection that is dead and does not know it
      connected = false;
      connect();
      tell();
    }, 2000);
  }

  start();
  return { get live() { return live; }, get last() { return last; }, get connected() { return connected; }, get messages() { return drawn.size; }, carry };
})();
