// What htmx does not do: charts, and keeping keyboard focus and opened details when a part of the page is redrawn.
"use strict";

(() => {
  let kept = null;

  const part = (target) => ({
    focus: target.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null,
    open: [...target.querySelectorAll("details[open][id]")].map((each) => each.id),
  });

  document.addEventListener("htmx:beforeSwap", (event) => { kept = part(event.detail.target); });
  document.addEventListener("htmx:afterSettle", () => {
    if (!kept) return;
    for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
    if (kept.focus) {
      [...document.querySelectorAll("#live a")].find((each) => each.getAttribute("href") === kept.focus)
        ?.focus({ preventScroll: true });
    }
    kept = null;
  });
  // A reader who signed out, or whose token was revoked, sees the sign-in page, not a page that only looks live.
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.reload();
  });

  const charts = [...document.querySelectorAll("[data-chart]")];
  if (!charts.length || !window.uPlot) return;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);  // UTC, as everywhere on the page
  // The format of figures.py: a space between thousands, and milliseconds below one second.
  const number = (value) => {
    const [whole, rest] = String(Math.round(value * 100) / 100).split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, "\u00a0") + (rest ? `.${rest}` : "");
  };
  const span = (seconds) => (seconds > 0 && seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${number(seconds)} s`);
  const drawn = new Map();
  const roomFor = (_, marks) => Math.max(34, 10 + 7 * Math.max(0, ...(marks || []).map((each) => String(each).length)));
  const STEPS = [-3, -2, -1, 0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
  const steps = (_, axis, low, high) => (high === 1 ? [1] : STEPS);  // if all values are zero, the axis goes from 0 to 1

  const make = (box, columns) => {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const lines = columns.map((name, place) => ({
      label: name, stroke: colour(place ? "--bad" : "--accent"), width: 1.5, dash: place ? [5, 3] : [], points: { show: false },
    }));
    return new uPlot({
      width: box.clientWidth, height: 130, cursor: { show: false }, legend: { show: false },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
      padding: [6, 8, 0, 0],
      axes: [{ ...axis, size: 24, space: 64, values: (_, marks) => marks.map(clock) }, { ...axis, size: roomFor, space: 28, incrs: steps, values: (_, marks) => marks.map((each) => number(each)) }],
      series: [{}, ...lines],
    }, [[], ...columns.map(() => [])], box);
  };

  const show = async () => {
    if (document.visibilityState !== "visible") return;
    const answer = await fetch(charts[0].dataset.source, { credentials: "same-origin" });
    if (!answer.ok) return;
    const lines = await answer.json();
    if (lines.at.length < 2) return;  // one sample makes no line, and its axis labels would overlap
    for (const box of charts) {
      const columns = box.dataset.chart.split(" ");
      if (!drawn.has(box)) { box.textContent = ""; drawn.set(box, make(box, columns)); }
      drawn.get(box).setData([lines.at, ...columns.map((name) => lines[name])]);
      for (const name of columns) {
        const last = lines[name].at(-1);
        const place = document.querySelector(`[data-last="${name}"]`);
        if (place) place.textContent = last == null ? "–" : place.dataset.unit === "s" ? span(last) : number(last);
      }
    }
  };

  const again = () => { for (const chart of drawn.values()) chart.destroy(); drawn.clear(); show(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("resize", again);
  show().catch(() => {});
  setInterval(() => { show().catch(() => {}); }, 2000);  // live.js reports a lost server
})();
