// The screen "Hooks": for each harness what is installed where, when it last called, and what is missing.

import { REPORT_MS, read } from "../access.js";
import { el } from "../dom.js";
import { badge, facts, reading, section, time } from "../parts.js";

const HARNESSES = ["claude", "codex", "gemini", "hermes", "openclaw", "opencode"];
const FILES = {
  present: ["✓", "as installed", "good"], missing: ["✗", "not there", "bad"], drifted: ["▽", "not as this version would install it", "warn"],
  foreign: ["✗", "something else is there", "bad"], unreadable: ["✗", "cannot be read", "bad"],
};

/** Return the command that shows the same. */
export function command() {
  return "lifebus hooks status";
}

/** Open the screen. */
export function open(context) {
  const parts = reading({
    context,
    read: () => Promise.all([read("/api/hooks", {}, REPORT_MS), read("/api/status")]),
    // Without any installation the report is an empty list.
    draw: ([report, status]) => el("div", { class: "tiles" },
      ...HARNESSES.map((name) => harness(name, report.data.installations ?? [], status)),
      report.data.launcher && launcher(report.data.launcher)),
  });
  const again = el("button", { type: "button", id: "hooks-again", click: parts.again }, "Look again");
  return { node: el("section", {}, el("h1", {}, "Hooks"), el("div", { class: "toolbar" }, again), parts.node), close: parts.close };
}

function harness(name, installations, status) {
  const own = installations.filter((one) => one.target.adapter_id === name);
  const age = status.harnesses.find((one) => one.adapterId === name)?.lastHookAgeS ?? null;
  return section(name,
    facts([["last call", age === null ? "none since the broker started" : time(Date.now() - age * 1_000)]]),
    own.length ? own.map(installation) : el("p", { class: "muted" }, "○ not installed; ", el("code", {}, `lifebus hooks install ${name}`)));
}

function installation({ target, files, hooks, trust, trust_problem: trustProblem, sound }) {
  const untrusted = (trust ?? []).filter((one) => one.state !== "trusted");
  return el("article", { class: "question" },
    el("h3", {}, `${target.mode.replaceAll("_", " ")}, ${target.project ?? target.scope}`),
    el("p", {}, sound ? badge("✓", "works", "good") : badge("✗", "needs attention", "bad")),
    facts([
      ...files.files.map((one) => [one.path, [badge(...FILES[one.state]), one.problem ? ` ${one.problem}` : ""]]),
      ["hooks", hooks.join(", ")], ["not trusted", untrusted.map((one) => `${one.event} (${one.state})`).join(", ")], ["trust", trustProblem],
    ]),
    sound ? null : el("p", {}, "Repair: ", el("code", {}, `lifebus hooks install ${target.adapter_id}`)));
}

function launcher({ files, problem, seconds }) {
  return section("launcher",
    facts([
      ...files.files.map((one) => [one.path, badge(...FILES[one.state])]),
      ["runs", problem ? badge("✗", problem, "bad") : seconds === null || seconds === undefined ? null : `in ${Math.round(seconds * 1_000)} ms`],
    ]));
}
