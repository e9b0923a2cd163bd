// Notifications of the browser: asked for with a button, never by themselves, and shown as the page's rules say.

import { el } from "./dom.js";
import { ask, say } from "./notice.js";
import { KINDS, Reminders, USUAL } from "./reminders.js";

const KEY = "lifebus.notifications";
const TOLD = "lifebus.told";
const TICK_MS = 1_000;

/** Follow the store and show what is due; return what opens the dialog in which a person chooses. */
export function notifications(store, navigate) {
  let reminders = null;
  const restart = () => {
    const rules = chosen();
    reminders = rules && allowed() === "granted" ? new Reminders(rules) : null;
  };
  restart();
  setInterval(() => {
    const at = new Date();
    if (!reminders || !store.status) return;
    // What was told is known in every tab, and after the page was loaded again.
    const kept = localStorage.getItem(TOLD) ?? "[]";
    reminders.told = new Set(JSON.parse(kept));
    const state = { sessions: store.sessions, harnesses: store.status.harnesses, nowMs: at.getTime(), minutes: at.getHours() * 60 + at.getMinutes() };
    const found = reminders.take(state);
    const told = JSON.stringify([...reminders.told]);
    if (told !== kept) localStorage.setItem(TOLD, told);
    if (found) show(found, navigate);
  }, TICK_MS);
  return () => choose().then(restart);
}

function show({ title, body }, navigate) {
  const shown = new Notification(title, { body, tag: "lifebus", renotify: true });
  shown.onclick = () => {
    focus();
    navigate("now");
    shown.close();
  };
}

/** Return what the browser allows: granted, denied, default, or missing. */
function allowed() {
  return "Notification" in window ? Notification.permission : "missing";
}

/** Return the rules that were chosen here, null where there are none. */
function chosen() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    return kept && { ...USUAL, ...kept };
  } catch {
    return null;
  }
}

async function choose() {
  const rules = chosen();
  const form = fields(rules ?? USUAL);
  const agreed = await ask({
    title: "Notifications of this browser", action: "Notify me",
    body: el("div", {}, el("p", { role: "status" }, standing(rules)), form.node, rules && el("button", { type: "button", id: "notify-off", click: off }, "Notify me no longer")),
  });
  if (!agreed) return;
  if ((await permission()) !== "granted") return say("The browser does not allow notifications of this page: its settings for this site decide.");
  localStorage.setItem(KEY, JSON.stringify(form.values()));
  say("This browser notifies you while a page of the dashboard is open.");
}

function off() {
  localStorage.removeItem(KEY);
  document.querySelector("#dialog .buttons button").click();
  say("This browser notifies you no longer.");
}

/** Ask the browser; only after somebody pressed a button does it ask the person. */
async function permission() {
  const now = allowed();
  return now === "default" ? Notification.requestPermission() : now;
}

function standing(rules) {
  const now = allowed();
  if (now === "missing") return "This browser has none, or gives them only to pages over TLS or of this machine.";
  if (now === "denied") return "The browser is set to show none of this page.";
  return rules ? "They are on." : "They are off. The browser asks you once more.";
}

function fields(rules) {
  const kinds = Object.entries(KINDS).map(([kind, words]) => [kind, el("input", { type: "checkbox", checked: rules.on.includes(kind) }), words]);
  const number = (value, most) => el("input", { type: "number", min: "0", max: String(most), value: String(value) });
  const [after, group, pressure] = [number(rules.afterS, 3_600), number(rules.groupS, 3_600), number(rules.pressurePct, 100)];
  const quiet = el("input", { type: "text", value: rules.quiet, placeholder: "22:00-07:00", pattern: "\\d\\d:\\d\\d-\\d\\d:\\d\\d" });
  return {
    node: el("div", { class: "fields" },
      el("fieldset", {}, el("legend", {}, "When"), ...kinds.map(([, box, words]) => el("label", {}, box, words))),
      el("label", {}, "A wait is shown after so many seconds", after), el("label", {}, "Further ones are waited for, in seconds", group),
      el("label", {}, "A context is nearly full from so many percent on", pressure), el("label", {}, "Quiet hours", quiet)),
    values: () => ({
      on: kinds.filter(([, box]) => box.checked).map(([kind]) => kind),
      afterS: Number(after.value), groupS: Number(group.value), pressurePct: Number(pressure.value), quiet: quiet.checkValidity() ? quiet.value : "",
    }),
  };
}
