// The screen "Ledger": its chain and the check of it, what is kept, snapshots and backups, and what is missing.

import { read } from "../access.js";
import { el, replace } from "../dom.js";
import { bytes, count } from "../format.js";
import { badge, facts, failed, onChange, reading, section, table, time } from "../parts.js";
import { rowOf } from "../store.js";

const EVERY_MS = 10_000;

/** Return the command that shows the same. */
export function command() {
  return "lifebus ledger show";
}

/** Open the screen. */
export function open(context) {
  const ledger = reading({ context, everyMs: EVERY_MS, read: () => read("/api/ledger"), draw: drawLedger });
  const gaps = reading({ context, read: readGaps, draw: drawGaps });
  const stop = onChange(context.store, ({ rows }) => rows, ledger.again);
  return {
    node: el("section", {}, el("h1", {}, "Ledger"), ledger.node, section("Check", chainCheck()), section("Gaps", gaps.node)),
    close() {
      stop();
      ledger.close();
      gaps.close();
    },
  };
}

function drawLedger(found) {
  const { retention, scrub, backup, saves } = found;
  return el("div", { class: "tiles" },
    section("Chain", facts([
      ["writes", found.writable ? badge("✓", "are taken", "good") : badge("✗", "are refused: the disk is full", "bad")],
      ["receipts", `positions ${(found.floor + 1).toLocaleString()} to ${found.head.toLocaleString()}`],
      ["waiting for their commit", found.queued && count(found.queued, "receipt")],
      ["history", found.epoch], ["kept by", `${found.library} (${found.backend}, ${found.durability})`], ["size", bytes(found.bytes)],
      ["cannot", found.lacks.join(", ")],
    ]), faults(found.damaged, "No receipt is known to be damaged.")),
    section("Scrub", scrub ? [scrubFacts(scrub), faults(scrub.faults, "The last whole check found nothing.", scrub.endedMs)] : missing(found, "The whole ledger is never checked (scrub.every_h is 0).")),
    section("Retention", retention ? retentionFacts(retention) : missing(found, "Nothing is dropped.")),
    section("Saves", facts([
      ["snapshots since the broker started", String(saves.made)], ["failed", saves.failed ? badge("✗", String(saves.failed), "bad") : "0"],
      ["backups", backup ? `every ${backup.everyH} h, ${backup.keep} are kept` : "none are scheduled (backup.folder)"],
      ["newest backup", backup && (backup.lastMs ? time(backup.lastMs) : "none yet")],
      ["last one failed", backup?.fault && badge("✗", backup.fault, "bad")],
    ])));
}

function scrubFacts({ everyH, part, position, endedMs }) {
  return facts([
    ["the whole ledger is checked", everyH ? `every ${everyH} h, while nothing else is done` : "never (scrub.every_h is 0)"],
    ["last whole check", endedMs ? time(endedMs) : "none yet"], ["now", part && `${part}, at ${position.toLocaleString()}`],
  ]);
}

function retentionFacts({ keepDays, keepMb, dedupeDays, bytes: size, last }) {
  const limits = [keepDays && `${keepDays} days`, keepMb && `${keepMb.toLocaleString()} MB`].filter(Boolean).join(", ");
  return facts([
    ["receipts are kept", limits ? `up to ${limits}` : "for ever"], ["files", keepMb ? `${bytes(size)}, ${Math.round(size / 1048576 / keepMb * 100)} % of the limit` : bytes(size)],
    ["repeated events are known for", `${dedupeDays} days`],
    ["last cut", last && [`positions ${(last.after + 1).toLocaleString()} to ${last.until.toLocaleString()} by ${last.reason}, `, time(last.atMs)]],
    ["consumers that lost some", last?.consumers.join(", ")],
  ]);
}

function faults(list, none, isKnown = true) {
  if (!list.length) return isKnown ? el("p", { class: "good" }, `✓ ${none}`) : null;
  return el("ul", { class: "bad" }, ...list.map((one) => el("li", {}, `✗ ${one}`)));
}

function missing({ lacks }, otherwise) {
  return el("p", { class: "muted" }, lacks.includes("durable") ? "Nothing durable is kept." : otherwise);
}

function chainCheck() {
  const result = el("div", { role: "status" });
  const check = async () => {
    replace(result, el("p", { class: "muted" }, "Checking …"));
    try {
      const { checked, faults: found } = await read("/api/ledger/check", { tail: 10_000 });
      replace(result, faults(found, `The chain holds up to position ${checked.toLocaleString()}.`));
    } catch (fault) {
      replace(result, failed(fault, check));
    }
  };
  return [el("button", { type: "button", id: "check-chain", click: check }, "Check the newest 10,000 receipts"), result];
}

async function readGaps() {
  return (await read("/api/receipts", { event: "receipt.gap_detected", limit: 200 })).items.map(rowOf);
}

function drawGaps(rows) {
  return table({
    label: "Gaps that were recorded", rows: rows.reverse(), none: "No gap was recorded.",
    columns: [
      ["Position", (row) => el("a", { href: `#/tail?at=${row.position}` }, String(row.position))],
      ["When", (row) => time(row.at)], ["Harness", (row) => row.receipt.adapter_id],
      ["What", (row) => Object.entries(row.receipt.telemetry_summary).map(([name, value]) => `${name} ${value}`).join(", ")],
    ],
  });
}
