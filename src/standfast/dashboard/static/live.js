// Live pages: the changing part of a page is redrawn as soon as a notice from the server concerns it. While there is
// no stream of notices, or the reader may not read it, a timer redraws it.
"use strict";

(() => {
  const STREAMING = 15000, ALONE = 2000;  // how often the timer redraws, with a stream and without one
  const PAUSE = 1000, SHARE = 5;  // between two redraws because of notices; longer if drawing takes long
  const SETTLED = 1500;  // redraw once more after the last notice: counts on a page may be a second old
  const LATE = 10000;  // a server that takes longer to answer counts as gone
  const LEAVING = 400;  // a request also fails when the reader leaves the page, which is not worth a message
  const SILENT = "the server does not answer";
  const place = () => document.getElementById("live");
  if (!place() || !window.htmx) return;

  let answered = Date.now(), asked = null, saying = null;
  let stream = null, drawn = Date.now(), pause = PAUSE, due = null, settled = null;

  // A job's progress comes without notices: while it is shown, the timer redraws often.
  const every = () => (open() && !place().querySelector("progress.moving") ? STREAMING : ALONE);
  const draw = () => { drawn = Date.now(); window.htmx.trigger(place(), "news"); };
  const drawSettled = () => { clearTimeout(settled); settled = setTimeout(draw, SETTLED); };
  const drawNow = () => { due = null; draw(); drawSettled(); };
  const news = () => {
    if (due !== null) return;
    const wait = drawn + pause - Date.now();
    if (wait > 0) due = setTimeout(drawNow, wait); else drawNow();
  };

  // A page that is no longer redrawn looks as if nothing happened: until it is redrawn, it says that it is not live.
  const bar = document.getElementById("lost");
  const clock = (at) => `${new Date(at).toISOString().slice(11, 19)} UTC`;
  const say = (text) => { clearTimeout(saying); if (bar.textContent !== text) bar.textContent = text; };
  const lost = (why) => say(`Not live since ${clock(answered)}: ${why}; trying again`);
  const late = () => { if (asked !== null && Date.now() - asked > LATE) lost(SILENT); };
  const refused = (status) => (status === 0 ? SILENT : `the server answers with an error (${status})`);
  document.addEventListener("htmx:beforeRequest", () => { asked = Date.now(); });
  document.addEventListener("htmx:afterRequest", (event) => {
    asked = null;
    pause = Math.max(PAUSE, SHARE * (Date.now() - drawn));
    if (event.detail.successful) { answered = Date.now(); say(""); return; }
    const why = refused(event.detail.xhr.status);
    saying = setTimeout(() => lost(why), LEAVING);
  });

  const tell = (word) => { document.body.dataset.stream = word; };
  const open = () => stream !== null && stream.readyState === EventSource.OPEN;
  const seen = () => document.visibilityState === "visible";
  const concerns = (said) => {
    const subject = place().dataset.subject;
    return !subject || JSON.parse(said).subject === subject;
  };

  const listen = () => {
    if (stream !== null || !seen()) return;
    stream = new EventSource(place().dataset.notices);
    stream.onopen = () => { tell("open"); drawSettled(); };  // something may have happened since the page was drawn
    stream.onmessage = (event) => { if (concerns(event.data)) news(); };
    stream.addEventListener("gone", news);
    stream.onerror = () => {
      if (document.body.dataset.stream === "open") answered = Date.now();  // the server was there until now
      tell("down");
      if (stream.readyState === EventSource.CLOSED) stream = null;  // refused; tried again later
    };
  };
  const leave = () => { if (stream !== null) { stream.close(); stream = null; tell("down"); } };

  // A hidden page keeps no connection: browsers allow few of them per server.
  document.addEventListener("visibilitychange", () => { if (seen()) { news(); listen(); } else leave(); });
  setInterval(late, 1000);
  setInterval(() => { if (seen() && Date.now() - drawn >= every()) draw(); }, 250);
  setInterval(listen, STREAMING);
  listen();
})();
