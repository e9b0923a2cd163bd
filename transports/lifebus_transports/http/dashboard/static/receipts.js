// How a receipt looks: one line of a list, and everything that it says.

import { el } from "./dom.js";
import { ago, bytes, clock, moment } from "./format.js";
import { facts as listed } from "./parts.js";

/** Every event, with its symbol. */
export const MARKS = {
  "session.starting": "◇", "session.started": "◆", "session.ending": "◇", "session.ended": "■",
  "frame.opening": "▹", "frame.opened": "▶", "frame.ending": "▹", "frame.ended": "◀",
  "context.pressure_observed": "∿", "context.compacted": "≍", "supervisor.tick": "·",
  "capability.degraded": "▽", "receipt.emitted": "✉", "receipt.gap_detected": "⚡",
};

/** Return the cells of a line. */
export function line({ receipt, gap, position, at }, nameOf) {
  if (gap) return [el("span", { class: "grow" }, gapText(gap))];
  return [
    el("span", { class: "time", title: moment(at) }, clock(at)),
    el("span", { class: "position" }, String(position)),
    el("span", { class: `event ${tone(receipt)}` }, `${{ bad: "✗ ", warn: "▽ " }[tone(receipt)] ?? ""}${MARKS[receipt.event] ?? "·"} ${receipt.event}`),
    el("span", { class: "who" }, nameOf(receipt)),
    el("span", { class: "grow facts" }, summary(receipt)),
  ];
}

/** Return what is gone, in words. */
export function gapText({ topic, after, through, reason }) {
  const words = {
    pruned: "were dropped by retention", deleted: "were deleted",
    other_history: "belong to another ledger", ahead_of_history: "were never recorded here",
  };
  return `⚡ Not recovered: ${topic} ${after + 1} to ${through} ${words[reason] ?? reason}.`;
}

/** Return a class for a receipt: failures and warnings have a symbol of their own beside the colour. */
export function tone({ event, status }) {
  if (status === "failed" || event === "receipt.gap_detected") return "bad";
  return status === "degraded" || event === "capability.degraded" ? "warn" : "";
}

/** Return the facts of a receipt on one line. */
export function summary({ status, telemetry_summary: facts, payload_receipts: payloads, client_id: client }) {
  const said = Object.entries(facts)
    .filter(([name, value]) => value !== null && !["cwd", "git_branch", "emitter"].includes(name))
    .map(([name, value]) => `${name}=${value}`);
  const placed = payloads.map((one) => `✉ ${one.payload_kind} → ${one.placement ?? one.status}`);
  return [status === "observed" ? "" : status, ...placed, ...said, client].filter(Boolean).join("  ");
}

/** Return everything that a receipt says, as a list of names and values. */
export function details({ receipt, position, at }) {
  const plain = Object.entries(receipt).filter(([, value]) => value !== null && typeof value !== "object");
  const facts = Object.entries(receipt.telemetry_summary).map(([name, value]) => [name, name.endsWith("_ms") && value > 1e12 ? `${moment(value)} · ${ago(value)}` : String(value)]);
  return el("article", { class: "details", "aria-label": `Receipt ${position}` },
    el("h2", {}, receipt.event),
    el("p", {}, `${moment(at)} · ${ago(at)} · position ${position}`),
    facts.length ? el("h3", {}, "Facts") : null,
    facts.length ? listed(facts) : null,
    receipt.payload_receipts.length ? el("h3", {}, "Payloads") : null,
    ...receipt.payload_receipts.map((one) => listed([
      ["payload", one.payload_id], ["kind", one.payload_kind], ["placement", one.placement ?? "none"],
      ["status", one.status], ["size", bytes(one.byte_size)],
    ])),
    ...receipt.capability_degradations.map((one) => listed(Object.entries(one).map(([name, value]) => [name, String(value)]))),
    ...receipt.warnings.map((one) => el("p", { class: "warn" }, `▽ ${one.message ?? JSON.stringify(one)}`)),
    el("h3", {}, "Receipt"),
    listed(plain.map(([name, value]) => [name, String(value)])),
  );
}
