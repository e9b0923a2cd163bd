// Parts that screens are made of: tables, times, what is empty, loading or failed, and actions that ask first.

import { LoggedOut, request } from "./access.js";
import { el, replace, setText } from "./dom.js";
import { ago, clock, moment } from "./format.js";
import { ask, say } from "./notice.js";

const TICK_MS = 5_000; // how often relative times are written again
const READS = "This page only reads. `lifebus dashboard --write` opens one that may act.";

/** Return a time: how long ago it is, and the time of day; the whole time is its title. */
export function time(ms) {
  const iso = new Date(ms).toISOString();
  return el("time", { datetime: iso, title: moment(ms), "data-at": ms }, timeText(ms));
}

/** Write every time of the page again while it is open. */
export function keepTimes() {
  setInterval(() => {
    for (const one of document.querySelectorAll("time[data-at]")) setText(one, timeText(Number(one.dataset.at)));
  }, TICK_MS);
}

/** Return a table; `columns` are pairs of a heading and what makes a cell (a text, a node or a list of them) of a row. */
export function table({ label, columns, rows, none = "There is nothing." }) {
  if (!rows.length) return empty(none);
  const cells = (row) => columns.map(([, cell], index) => el(index ? "td" : "th", index ? {} : { scope: "row" }, cell(row)));
  // Somebody without a mouse scrolls what has the focus.
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    el("table", { "aria-label": label },
      el("thead", {}, el("tr", {}, ...columns.map(([heading]) => el("th", { scope: "col" }, heading)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row))))));
}

/** Return a text in whose backquotes is code. */
export function marked(text) {
  return text.split("`").map((one, index) => (index % 2 ? el("code", {}, one) : one));
}

/** Return what stands where there is nothing. */
export function empty(text) {
  return el("p", { class: "empty muted" }, ...marked(text));
}

/** Return a section of a screen, with its heading. */
export function section(title, ...children) {
  const id = `section-${title.toLowerCase().replaceAll(/\W+/g, "-")}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...children);
}

/** Return a symbol with a word; `kind` is good, warn, bad or quiet, and is never said by its colour alone. */
export function badge(mark, word, kind) {
  return el("span", { class: `badge ${kind}` }, el("span", { "aria-hidden": "true" }, `${mark} `), word);
}

/**
 * Return `{ node, again, close }`: what `draw` makes of what `read` promises, and says while it is loading or failed.
 *
 * It is read again every `everyMs`, and by `again()`; nothing is drawn where nothing changed, and the focus stays.
 */
export function reading({ context, read, draw, everyMs = 0 }) {
  const state = el("div", {}, el("p", { class: "muted", role: "status" }, "Loading …"));
  const content = el("div", {});
  let shown = null;
  let isOpen = true;
  const again = async () => {
    try {
      const found = await read();
      if (!isOpen) return;
      replace(state);
      const written = JSON.stringify(found);
      if (written !== shown) keepFocus(content, () => replace(content, draw(found)));
      shown = written;
    } catch (fault) {
      if (!isOpen) return;
      if (fault instanceof LoggedOut) context.guard(Promise.reject(fault));
      else replace(state, failed(fault, again));
    }
  };
  const timer = everyMs && setInterval(() => document.hidden || again(), everyMs);
  again();
  return {
    node: el("div", {}, state, content),
    again,
    close() {
      isOpen = false;
      clearInterval(timer);
    },
  };
}

/** Return what stands where something could not be read, with a button that tries again. */
export function failed(fault, again) {
  return el("div", { class: "failed", role: "alert" },
    el("p", { class: "bad" }, `✗ ${fault.message}`),
    el("button", { type: "button", id: "try-again", click: again }, "Try again"));
}

/** Draw again; the element that had the focus has it again, where one of its id is there. */
export function keepFocus(node, draw) {
  const { activeElement } = document;
  const id = node.contains(activeElement) ? activeElement.id : "";
  draw();
  if (id) document.getElementById(id)?.focus({ preventScroll: true });
}

/**
 * Return a button that does something after a question: it posts `body` to `path`, and says what came of it.
 *
 * Without the scope to act it is disabled, and says why.  `done(answer)` is called where it was done.
 */
export function actionButton({ context, id, label, title, question, path, body = {}, danger = false, done }) {
  const mayAct = context.scope === "write";
  const run = async () => {
    if (!(await ask({ title, body: question, action: label, danger }))) return;
    const answer = await context.guard(request("POST", path, typeof body === "function" ? body() : body));
    if (!answer) return;
    say(`Done: ${title}`);
    done?.(answer);
  };
  const why = mayAct ? null : READS;
  return el("button", { type: "button", id, class: danger ? "danger" : null, disabled: !mayAct, title: why, click: run }, label);
}

/** Return what a page that only reads says beside its actions, null where it may act. */
export function actHint({ scope }) {
  return scope === "write" ? null : empty(READS);
}

/** Return a list of names with values; those without a value are left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => ![null, undefined, "", false, 0].includes(value));
  return el("dl", {}, ...given.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** Call a function soon after the store has changed, once for many changes; return what ends that. */
export function onChange(store, wanted, act) {
  let timer = null;
  const stop = store.listen((change) => {
    if (wanted(change)) timer ??= setTimeout(() => {
      timer = null;
      act();
    }, 500);
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

function timeText(ms) {
  return `${ago(ms)}, ${clock(ms)}`;
}
