// The screen "Now": who needs a person, who works, whose context fills up, and what fell silent.

import { el, replace, svg } from "../dom.js";
import { count, duration, moment } from "../format.js";
import { empty, keepFocus, time } from "../parts.js";
import { addressOf } from "../screens.js";
import { nameOf, sessionPlace, stateOf } from "../sessions.js";
import { sessionKey } from "../store.js";
import { pressureLine } from "../pressure.js";

const RECENT_MS = 24 * 3_600_000; // ended sessions are shown for so long
const MOST = 200; // sessions that are shown
const WORDS = { permission: "to allow something", input: "for an answer", idle: "for the next prompt" };

/** Return the command that shows the same. */
export function command() {
  return "lifebus top";
}

/** Open the screen. */
export function open({ store }) {
  let drawn = new Map(); // session → its card, and of what it was made
  const needs = el("section", { "aria-label": "Who needs you", class: "needs" });
  const cards = el("ul", { class: "cards", "aria-label": "Sessions" });
  const [broker, more] = [el("p", { class: "muted" }), el("p", { class: "muted" })];
  const draw = () => {
    const sessions = [...store.sessions.values()].filter((one) => !one.ended || Date.now() - one.lastAtMs < RECENT_MS);
    sessions.sort((one, other) => rank(one) - rank(other) || other.startedAtMs - one.startedAtMs);
    const shown = sessions.slice(0, MOST).map((one) => [one, cardOf(one, store, drawn)]);
    drawn = new Map(shown.map(([one, made]) => [keyOf(one), made]));
    keepFocus(needs, () => replace(needs, ...needing(sessions)));
    keepFocus(cards, () => replace(cards, shown.map(([, { node }]) => node), sessions.length ? null : el("li", {}, none(store))));
    replace(more, sessions.length > MOST ? `${count(sessions.length - MOST, "further session is", "further sessions are")} not shown.` : "");
    replace(broker, summary(store));
  };
  const soon = once(draw);
  // Sessions are read again soon after their receipts came.
  const stop = store.listen(({ sessions, loaded }) => (sessions || loaded) && soon());
  const timer = setInterval(soon, 5_000);
  draw();
  return {
    node: el("section", { class: "now" }, el("h1", {}, "Now"), broker, needs, cards, more),
    close() {
      stop();
      clearInterval(timer);
    },
  };
}

function rank(session) {
  return ["waits for you", "silent", "works", "idle", "ended"].indexOf(stateOf(session)[1]);
}

/** Return who waits for a person, and who fell silent in an open turn. */
function needing(sessions) {
  const waiting = sessions.flatMap((session) => (session.waiting ?? [])
    .filter((wait) => wait.waitingFor !== "idle").map((wait) => [session, wait]));
  const silent = sessions.filter((session) => stateOf(session)[1] === "silent");
  const link = (session, kind) => el("a", { href: sessionPlace(session), id: `${kind}-${session.adapterId}-${session.sessionId}` }, nameOf(session));
  const what = (session, { kind, waitingFor }) => (isFlow(kind)
    ? ["for an answer in the ", el("a", { href: addressOf("inbox"), id: `inbox-${session.sessionId}` }, "inbox")] : `${WORDS[waitingFor] ?? waitingFor}${kind ? `: ${kind}` : ""}`);
  return [
    waiting.length ? el("h2", { id: "needs-title" }, `⚑ Needs you (${waiting.length})`) : null,
    waiting.length ? el("ul", {}, ...waiting.map(([session, wait]) => el("li", {},
      link(session, "needs"), " waits ", what(session, wait),
      el("span", { class: "muted", title: moment(wait.sinceMs) }, ` for ${duration(Date.now() - wait.sinceMs)}`)))) : null,
    silent.length ? el("h2", {}, `… Fell silent (${silent.length})`) : null,
    silent.length ? el("ul", {}, ...silent.map((session) => el("li", {},
      link(session, "silent"), " has an open turn and said nothing",
      el("span", { class: "muted", title: moment(session.lastAtMs) }, ` for ${duration(Date.now() - session.lastAtMs)}`)))) : null,
  ].filter(Boolean);
}

function keyOf({ adapterId, sessionId }) {
  return sessionKey(adapterId, sessionId);
}

/** Return a session's card with what it was made of: the one that is there, where nothing changed. */
function cardOf(session, store, drawn) {
  const key = keyOf(session);
  const points = store.pressure.get(key) ?? [];
  const from = JSON.stringify([session, stateOf(session), points.length, points.at(-1)]);
  const known = drawn.get(key);
  return known?.from === from ? known : { from, node: card(session, points) };
}

function card(session, points) {
  const [mark, word, kind] = stateOf(session);
  const waits = (session.waiting ?? []).filter((one) => one.waitingFor !== "idle" && one.kind && !isFlow(one.kind)).map((one) => one.kind);
  return el("li", { class: `card ${kind}`, "data-session": session.sessionId },
    el("h2", {}, el("a", { href: sessionPlace(session), id: `card-${session.adapterId}-${session.sessionId}` }, nameOf(session))),
    el("p", { class: "state" }, el("span", { "aria-hidden": "true" }, `${mark} `), [word, ...waits].join(": ")),
    el("p", { class: "muted" }, [session.adapterId, session.cwd, session.gitBranch].filter(Boolean).join(" · ")),
    session.title ? el("p", { class: "title" }, session.title) : null,
    meter(session),
    pressureLine(points, { width: 240, height: 36 }),
    el("p", { class: "muted" },
      [session.openFrames.length ? `in turn ${session.turns ?? ""}` : counted(session.turns, "turn"), counted(session.subagents, "sub-agent"), counted(session.compactions, "compaction"),
        counted(session.failures, "failure")].filter(Boolean).join(" · ")),
    el("p", { class: "muted" }, "last sign of life ", time(session.lastAtMs)));
}

function meter(session) {
  if (session.usedPct === null) {
    const used = session.usedTokens === null ? "context not measured" : `${session.usedTokens.toLocaleString()} tokens used`;
    return el("p", { class: "muted" }, used);
  }
  const width = Math.min(100, session.usedPct);
  return el("p", { class: `meter ${session.pressure ?? ""}` },
    svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { width: 100, height: 6, class: "rail" }), svg("rect", { width, height: 6, class: "fill" })),
    `context ${session.usedPct} % ${session.pressure ?? ""}`);
}

function summary(store) {
  const { status } = store;
  if (!status) return "";
  const open = [...store.sessions.values()].filter((one) => !one.ended).length;
  const silent = status.harnesses.filter((one) => one.silent.length).map((one) => one.adapterId);
  const weak = status.harnesses.filter((one) => one.degraded.length).map((one) => one.adapterId);
  return [
    `broker ${status.version} up ${duration(status.uptimeS * 1000)}`, count(open, "open session"),
    count(status.ledger.head, "receipt"), count(status.clients, "client"),
    status.ledger.writable ? "" : "⚠ the ledger takes no writes",
    silent.length ? `… silent: ${silent.join(", ")}` : "", weak.length ? `▽ degraded: ${weak.join(", ")}` : "",
  ].filter(Boolean).join(" · ");
}

function none(store) {
  return empty(store.status?.harnesses.length
    ? "No session was at work in the last day."
    : "No harness has said anything yet. `lifebus hooks install` lets one in; `lifebus doctor` says what is missing.");
}

function isFlow(kind) {
  return kind?.startsWith("flow.");
}

function counted(number, noun) {
  return number ? count(number, noun) : "";
}

function once(draw) {
  let waiting = null;
  return () => {
    waiting ??= requestAnimationFrame(() => {
      waiting = null;
      draw();
    });
  };
}
