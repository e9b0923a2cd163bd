// The screen "Clients": named consumers with their lag and dead letters, and the callback clients that are connected.

import { read } from "../access.js";
import { commandLine } from "../command.js";
import { el } from "../dom.js";
import { count } from "../format.js";
import { actHint, actionButton, badge, empty, reading, section, table, time } from "../parts.js";
import { addressOf } from "../screens.js";

const EVERY_MS = 2_000; // how often the lag is read again
const FAR = 1_000; // receipts behind, from which on a consumer is shown as slow

/** Return the command that shows the same. */
export function command({ parts: [name] }) {
  return name ? commandLine("clients", "dead", name) : commandLine("clients", "list");
}

/** Open the screen; the address may name a consumer, whose dead letters are shown. */
export function open(context, { parts: [name] }) {
  const view = reading(name
    ? { context, read: () => readLetters(name), draw: (letters) => drawLetters(name, letters), everyMs: 10 * EVERY_MS }
    : { context, read: readAll, draw: (found) => draw(context, found, view), everyMs: EVERY_MS });
  return { node: el("section", {}, el("h1", {}, name ? `Dead letters of ${name}` : "Clients"), view.node), close: view.close };
}

async function readAll() {
  const [consumers, clients] = await Promise.all([read("/api/consumers"), read("/api/clients")]);
  return { consumers: consumers.data, clients: clients.data };
}

async function readLetters(name) {
  const letters = [];
  for (let complete = false, after = 0; !complete; ) {
    const page = await read(`/api/consumers/${encodeURIComponent(name)}/dead-letters`, { after, limit: 256 });
    letters.push(...page.data);
    after = letters.at(-1)?.number ?? after;
    ({ complete } = page);
  }
  return letters;
}

function draw(context, { consumers, clients }, view) {
  return [
    section("Consumers", table({
      label: "Consumers", rows: consumers, none: "There is no named consumer: `bus.consume` of the library makes one.",
      columns: [
        ["consumer", (one) => one.name],
        ["client", (one) => one.clientId],
        ["state", (one) => badge(...stateOf(one))],
        ["position", (one) => one.position.toLocaleString()],
        ["lag", (one) => (one.lag >= FAR ? badge("▲", one.lag.toLocaleString(), "warn") : one.lag.toLocaleString())],
        ["open", (one) => String(one.open)],
        ["dead letters", (one) => (one.dead
          ? el("a", { href: addressOf("clients", [one.name]), id: `dead-${one.name}` }, badge("✗", count(one.dead, "letter"), "bad")) : "none")],
        ["action", (one) => actionButton({
          context, id: `reset-${one.name}`, label: "Go on at the head", danger: true, title: `Reset ${one.name}`,
          question: `${one.name} leaves out ${count(one.lag, "receipt")} and goes on with what comes from now on. They stay in the ledger.`,
          path: `/api/consumers/${encodeURIComponent(one.name)}/reset`, done: () => view.again(),
        })],
      ],
    }), consumers.length ? actHint(context) : null),
    section("Callback clients", table({
      label: "Callback clients", rows: clients, none: "No callback client is connected.",
      columns: [
        ["client", (one) => one.clientId],
        ["kind", (one) => (one.background ? `${one.kind}, background` : one.kind)],
        ["harnesses", (one) => one.adapters.join(", ") || "all"],
        ["deadline", (one) => `${one.deadlineMs} ms`],
        ["dispatched", (one) => one.dispatched.toLocaleString()],
        ["failed", (one) => (one.failed ? badge("✗", one.failed.toLocaleString(), "bad") : "0")],
        ["events", (one) => one.events.join(", ")],
      ],
    })),
  ];
}

function drawLetters(name, letters) {
  const back = el("p", {}, el("a", { href: addressOf("clients"), id: "all-clients" }, "All clients"));
  if (!letters.length) return [back, empty(`Every receipt that ${name} was given is settled or still tried.`)];
  return [back, table({
    label: `Dead letters of ${name}`, rows: letters,
    columns: [
      ["number", (one) => String(one.number)],
      ["given up", (one) => time(one.atMs)],
      ["position", (one) => el("a", { href: addressOf("tail", [], { at: one.position }) }, one.position.toLocaleString())],
      ["tries", (one) => String(one.tries)],
      ["event", (one) => one.receipt?.event ?? "dropped by retention"],
      ["session", (one) => (one.receipt?.harness_session_id
        ? el("a", { href: addressOf("session", [one.receipt.adapter_id, one.receipt.harness_session_id]) }, `${one.receipt.adapter_id}/${one.receipt.harness_session_id}`)
        : one.receipt?.adapter_id ?? "")],
    ],
  })];
}

function stateOf({ lost, attached, lag }) {
  if (lost) return ["⚡", "history lost", "bad"];
  if (attached) return ["●", "attached", "good"];
  return lag ? ["○", "away, behind", "warn"] : ["○", "away", "quiet"];
}
