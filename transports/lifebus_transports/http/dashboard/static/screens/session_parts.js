// The parts of a session's screen that its export has as well: what the session is, its frames, gaps and compactions.

import { el } from "../dom.js";
import { count, duration, moment } from "../format.js";
import { badge, facts, section, table } from "../parts.js";
import { stateOf } from "../sessions.js";

/** Return what the session is, where that is known. */
export function headOf(session, course) {
  if (!session) return el("p", { class: "muted" }, "The broker keeps no head of this session; its receipts are below.");
  const [mark, word, kind] = stateOf(session);
  return el("div", { class: "head" },
    el("p", {}, badge(mark, word, kind), session.title ? el("span", { class: "title" }, ` ${session.title}`) : null),
    facts([
      ["harness", session.adapterId], ["session", session.sessionId], ["directory", session.cwd ?? "not known"],
      ["branch", session.gitBranch ?? "not known"], ["began", moment(course.from)],
      ["said last", moment(course.rows.at(-1)?.at ?? course.through)],
      ["counts", [count(course.rows.length, "receipt"), count(session.turns ?? 0, "turn"), count(session.subagents ?? 0, "sub-agent"),
        count(session.compactions ?? 0, "compaction"), count(session.failures ?? 0, "failure")].join(" · ")],
    ]));
}

/** Return the tables that say what the drawing shows. */
export function tablesOf(course) {
  return [
    section("Frames", table({
      label: "Frames", rows: course.frames.slice(-500), none: "No frame has been opened.",
      columns: [
        ["frame", (one) => one.label],
        ["kind", (one) => (one.parent ? "sub-agent" : "turn")],
        ["id", (one) => el("code", {}, one.id)],
        ["began", (one) => moment(one.from)],
        ["lasted", (one) => (one.through === null ? "still open" : duration(one.through - one.from))],
        ["status", (one) => (one.status === "failed" ? "✗ failed" : one.status)],
      ],
    })),
    section("Gaps and losses", table({
      label: "Gaps and losses", rows: [...course.gaps, ...course.losses.map((one) => ({ ...one, name: `${one.id} is lost: ${one.evidence}` }))],
      none: "Nothing is missing, and nothing was lost.",
      columns: [
        ["what", (one) => `⚡ ${one.name}`],
        ["from", (one) => moment(one.from)],
        ["until", (one) => (one.through === null ? "now" : moment(one.through))],
      ],
    })),
  ];
}
