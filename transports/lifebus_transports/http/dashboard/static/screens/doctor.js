// The screen "Doctor": every check of `lifebus doctor`, with its evidence and its repair.

import { REPORT_MS, read } from "../access.js";
import { el } from "../dom.js";
import { count } from "../format.js";
import { badge, marked, reading, table } from "../parts.js";

const STATES = { bad: ["✗", "bad", "bad"], warn: ["▽", "note", "warn"], ok: ["✓", "ok", "good"] };

/** Return the command that shows the same. */
export function command() {
  return "lifebus doctor";
}

/** Open the screen. */
export function open(context) {
  const parts = reading({ context, read: () => read("/api/doctor", {}, REPORT_MS), draw: ({ data }) => [summary(data), findings(data)] });
  const again = el("button", { type: "button", id: "doctor-again", click: parts.again }, "Check again");
  return { node: el("section", {}, el("h1", {}, "Doctor"), el("div", { class: "toolbar" }, again), parts.node), close: parts.close };
}

function summary(data) {
  const bad = data.filter((one) => one.state === "bad").length;
  return bad ? el("p", { class: "bad" }, `✗ ${count(bad, "check is", "checks are")} bad`) : el("p", { class: "good" }, "✓ nothing is bad");
}

function findings(data) {
  const order = Object.keys(STATES);
  return table({
    label: "Checks", rows: [...data].sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state)),
    columns: [
      ["Check", (one) => one.check], ["State", (one) => badge(...STATES[one.state])], ["What was found", (one) => one.evidence],
      ["Repair", (one) => marked(one.fix ?? "")],
    ],
  });
}
