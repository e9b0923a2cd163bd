// The screen "Capabilities": what each harness claims, with its evidence, and what is weaker now and since when.

import { read } from "../access.js";
import { commandLine } from "../command.js";
import { el } from "../dom.js";
import { badge, reading, section, table, time } from "../parts.js";
import { nameOf, sessionPlace } from "../sessions.js";
import { isLoss } from "./session_model.js";

const EVERY_MS = 10_000;
const SESSIONS = 20; // open sessions of a harness that are asked what they lost
const MARKS = { native: ["●", "good"], synthesized: ["◐", "good"], partial: ["◔", "warn"], manual: ["✎", "warn"], unavailable: ["–", "quiet"] };

/** Return the command that shows the same. */
export function command({ parts: [adapter] }) {
  return commandLine("contract", "manifest", adapter);
}

/** Open the screen; the address may name one harness. */
export function open(context, { parts: [adapter] }) {
  const view = reading({ context, read: () => readAll(context.store, adapter), draw, everyMs: EVERY_MS });
  return { node: el("section", {}, el("h1", {}, "Capabilities"), view.node), close: view.close };
}

async function readAll(store, adapter) {
  const [manifests] = await Promise.all([read("/api/capabilities"), store.refresh()]);
  const weak = store.status.harnesses.filter((one) => one.degraded.length).map((one) => one.adapterId);
  const open = [...store.sessions.values()].filter((one) => !one.ended && weak.includes(one.adapterId));
  const asked = weak.flatMap((name) => open.filter((one) => one.adapterId === name)
    .sort((one, other) => other.lastAtMs - one.lastAtMs).slice(0, SESSIONS));
  const losses = (await Promise.all(asked.map(lossesOf))).flat();
  const isWanted = (name) => !adapter || name === adapter;
  return {
    manifests: manifests.data.filter((one) => isWanted(one.adapter_id)),
    losses: losses.filter(({ session }) => isWanted(session.adapterId)),
  };
}

/** Return what a session has lost and not got back, from its receipts. */
async function lossesOf(session) {
  const lost = new Map();
  for (let complete = false, after = 0; !complete; ) {
    const page = await read("/api/receipts", {
      adapter: session.adapterId, session: session.sessionId, event: "capability.degraded", after, limit: 1024,
    });
    for (const change of page.items.flatMap(({ receipt }) => receipt.capability_degradations)) {
      // Each client has a receipt of one loss: it began with the first.
      if (isLoss(change) && !lost.has(change.capability)) lost.set(change.capability, { session, ...change });
      else if (!isLoss(change)) lost.delete(change.capability);
    }
    ({ complete, next: after } = page);
  }
  return [...lost.values()];
}

function draw({ manifests, losses }) {
  return [
    section("Weaker now", table({
      label: "Weaker now", rows: losses, none: "Every harness that is at work does what it claims.",
      columns: [
        ["capability", (one) => badge("▽", one.capability, "warn")],
        ["session", (one) => el("a", { href: sessionPlace(one.session), id: `lost-${one.session.sessionId}-${one.capability}` }, `${one.session.adapterId} ${nameOf(one.session)}`)],
        ["now", (one) => `${one.current_support}, claimed ${one.previous_support}`],
        ["since", (one) => time(one.observed_at_epoch_s * 1000)],
        ["evidence", (one) => one.evidence],
      ],
    })),
    section("Claims",
      el("p", { class: "muted" }, ...Object.entries(MARKS).flatMap(([word, [mark, kind]]) => [badge(mark, word, kind), " · "]).slice(0, -1)),
      table({
        label: "Claims", rows: namesOf(manifests),
        columns: [["capability", (name) => name], ...manifests.map((one) => [one.adapter_id, (name) => cell(one, name)])],
      })),
    ...manifests.map(evidence),
  ];
}

/** Return every capability that a manifest speaks of, in the order of the contract. */
function namesOf(manifests) {
  return [...new Set(manifests.flatMap((one) => Object.keys(claimsOf(one))))];
}

function claimsOf(manifest) {
  const claims = {};
  for (const [name, claim] of Object.entries(manifest.lifecycle_events)) claims[`event:${name}`] = claim;
  for (const [name, claim] of Object.entries(manifest.placement)) claims[`placement:${name}`] = claim;
  for (const name of ["context_pressure", "session_rename", "approval_surface"]) if (manifest[name]) claims[name] = manifest[name];
  claims["receipts.receipt_ledger"] = { support: manifest.receipts.receipt_ledger };
  for (const [name, support] of Object.entries(manifest.session_identity ?? {})) claims[`session_identity.${name}`] = { support };
  for (const part of ["reset", "continuation"]) {
    for (const [name, support] of Object.entries(manifest.renewal?.[part] ?? {})) claims[`renewal.${part}.${name}`] = { support };
  }
  return claims;
}

function cell(manifest, name) {
  const claim = claimsOf(manifest)[name];
  if (!claim) return badge("–", "not claimed", "quiet");
  const [mark, kind] = MARKS[claim.support];
  const limit = claim.max_bytes ? [" ", el("span", { class: "whole" }, `(${claim.max_bytes.toLocaleString()} B)`)] : null;
  return el("span", { title: claim.modes?.length ? `by ${claim.modes.join(", ")}` : null }, badge(mark, claim.support, kind), limit);
}

/** Return the evidence that a harness's manifest gives. */
function evidence(manifest) {
  const said = Object.entries(claimsOf(manifest)).filter(([, claim]) => claim.evidence)
    .map(([name, claim]) => ({ name, support: claim.support, evidence: claim.evidence }));
  if (manifest.renewal?.evidence) said.push({ name: "renewal", support: manifest.renewal.reset.native, evidence: manifest.renewal.evidence });
  const sources = (manifest.telemetry_sources ?? [])
    .map((one) => ({ name: `source: ${one.source_id}`, support: one.support, evidence: [one.location, one.evidence].filter(Boolean).join(": ") }));
  const weaker = (manifest.known_degradations ?? [])
    .map((one) => ({ name: one.capability, support: one.current_support, evidence: `was ${one.previous_support}. ${one.evidence ?? ""}` }));
  return section(`${manifest.display_name} (${manifest.adapter_id})`,
    el("p", { class: "muted" }, `adapter ${manifest.adapter_version} · ${manifest.role} · ${manifest.integration_modes.join(", ")}`),
    table({
      label: `Evidence of ${manifest.display_name}`, rows: [...weaker, ...said, ...sources], none: "The manifest gives no evidence beyond its claims.",
      columns: [["claim", (one) => one.name], ["support", (one) => badge(MARKS[one.support][0], one.support, MARKS[one.support][1])], ["evidence", (one) => one.evidence]],
    }));
}
