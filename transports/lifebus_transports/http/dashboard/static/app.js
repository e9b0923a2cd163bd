// The page: it logs in, opens the stream, and shows the screen that the address names.

import { LoggedOut, login, logout } from "./access.js";
import { Feed } from "./feed.js";
import { el, replace, setText } from "./dom.js";
import { count, duration } from "./format.js";
import { failed, keepFocus, keepTimes } from "./parts.js";
import { gapText } from "./receipts.js";
import { copy, say } from "./notice.js";
import { notifications } from "./notifications.js";
import { SCREENS, addressOf, links, placeOf } from "./screens.js";
import { Store } from "./store.js";
import { help, listenToKeys } from "./keys.js";
import { applyTheme, nextTheme } from "./theme.js";

const STATUS_MS = 30_000; // how often is looked who fell silent: nothing comes of those
const main = document.getElementById("main");
const store = new Store();
let screen = null;
let shows = 0;
let waitingFor = null; // nobody begins to wait when the page begins

applyTheme();
keepTimes();
// A link that is opened in the tab of this page changes its address alone.
addEventListener("hashchange", () => location.hash.startsWith("#login=") && location.reload());
begin();

async function begin() {
  let scope = null;
  try {
    scope = await login();
  } catch (fault) {
    return outside(fault.message);
  }
  if (!scope) return outside("This page is not logged in.");
  const context = { store, scope, navigate, guard };
  drawFrame(context);
  addEventListener("hashchange", () => show(context));
  const feed = new Feed({
    onReceipts: (items) => store.take(items),
    onGap: (missing) => store.miss(missing),
    onReady: ({ resume, head }) => guard(resume === "none" ? store.load(head) : store.refresh()),
    onState: connection,
  });
  store.listen(announce);
  listenToKeys({ navigate, keys: () => screen?.keys ?? {} });
  show(context);
  setInterval(() => screen && store.refreshSoon(), STATUS_MS);
  return feed.open();
}

/** Say what went wrong with a request, wherever it was asked. */
async function guard(work) {
  try {
    return await work;
  } catch (fault) {
    if (fault instanceof LoggedOut) outside(fault.message);
    else say(fault.message);
    return null;
  }
}

/** Show the screen of the address; where another one was asked for meanwhile, nothing. */
async function show(context) {
  const place = placeOf(location.hash);
  const found = screenOf(place);
  const number = (shows += 1);
  let module;
  try {
    module = await found.load();
  } catch (fault) {
    // Without a network a screen that was never open cannot be.
    if (number === shows) replace(main, failed(fault, () => show(context)));
    return;
  }
  if (number !== shows) return;
  screen?.close?.();
  screen = module.open(context, place);
  keepFocus(main, () => replace(main, screen.node));
  if (number > 1 && document.activeElement === document.body) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  document.title = `${found.label} · lifebus`;
  for (const link of document.querySelectorAll("#screens a")) {
    if (link.dataset.screen === found.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function screenOf({ name }) {
  return SCREENS.find((one) => one.name === name) ?? SCREENS[0];
}

/** Copy the command that shows the same as the address. */
async function copyCommand(context) {
  const place = placeOf(location.hash);
  const module = await screenOf(place).load();
  return copy(module.command(place, context));
}

function navigate(name, parts = [], parameters = {}) {
  location.hash = addressOf(name, parts, parameters);
}

function drawFrame(context) {
  const { scope } = context;
  const chooseNotifications = notifications(store, navigate);
  document.querySelector(".skip").onclick = (event) => {
    // An address names a screen, and no part of one.
    event.preventDefault();
    main.focus();
  };
  replace(document.getElementById("screens"), ...links());
  replace(document.getElementById("tools"),
    el("span", { class: "muted" }, scope === "write" ? "may act" : "reads only"),
    el("button", { type: "button", click: () => context.guard(copyCommand(context)) }, "Copy as command"),
    el("button", { type: "button", click: () => say(`Colours: ${nextTheme()}`) }, "Colours"),
    el("button", { type: "button", click: chooseNotifications }, "Notify"),
    el("button", { type: "button", click: help }, "Keys"),
    el("button", { type: "button", click: () => logout().finally(() => location.reload()) }, "Log out"));
}

/** Show how the connection is; whether anything was missed is said until the next time. */
function connection(state) {
  const node = document.getElementById("connection");
  const words = connectionWords(state);
  node.className = words.kind;
  node.dataset.state = state.word;
  node.dataset.resume = state.resume ?? "";
  setText(node, words.text);
  if (state.word === "logged out") outside(state.why);
}

function connectionWords({ word, resume, missing, until, behind, from, why }) {
  if (missing?.length) return { kind: "bad", text: `${word === "away" ? "○ Away. " : ""}${missing.map(gapText).join(" ")}` };
  if (word === "connecting") return { kind: "muted", text: "○ connecting" };
  if (word === "away") return { kind: "warn", text: `○ away for ${duration(Date.now() - from)}: ${why}` };
  if (word !== "live") return { kind: "warn", text: word };
  if (resume === "none") return { kind: "good", text: "● live" };
  const came = behind ? `${count(behind, "receipt")} came meanwhile` : "nothing came meanwhile";
  return { kind: "good", text: until ? "● live, catching up" : `● live again: nothing was missed, ${came}` };
}

/** Have screen readers say who begins to wait for a person. */
function announce({ sessions }) {
  if (!sessions) return;
  const waiting = new Map([...store.sessions].filter(([, one]) => (one.waiting ?? []).some((wait) => wait.waitingFor !== "idle")));
  for (const [key, one] of waiting) if (waitingFor && !waitingFor.has(key)) say(`${one.name ?? key} waits for you`);
  waitingFor = new Set(waiting.keys());
}

/** Show how to get in. */
function outside(why) {
  shows += 1;
  screen?.close?.();
  screen = null;
  replace(document.getElementById("screens"));
  replace(main,
    el("section", { class: "outside" },
      el("h1", {}, "lifebus"),
      el("p", { role: "alert" }, why),
      el("p", {}, "Run ", el("code", {}, "lifebus dashboard"), " on the machine of the broker. It opens this page with a link that works once.")));
}
