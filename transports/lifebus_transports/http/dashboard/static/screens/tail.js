// The screen "Tail": receipts as they come, with filters, a pause without loss, and jumps to a position.

import { commandLine } from "../command.js";
import { el, replace, setText } from "../dom.js";
import { count } from "../format.js";
import { VirtualList } from "../list.js";
import { MARKS, details, line } from "../receipts.js";
import { TailWindow } from "./tail_window.js";

const STATUSES = ["observed", "delivered", "skipped", "degraded", "failed"];

/** Open the screen; `place.parameters` hold filters, and with `at` a position. */
export function open({ store, navigate }, place) {
  const { at, ...filters } = place.parameters;
  const window = new TailWindow(filters);
  const fault = el("p", { role: "alert", class: "bad", id: "tail-fault" });
  let isOpen = false;
  const side = el("aside", { "aria-label": "The chosen receipt", tabindex: "0" });
  const summaryLine = el("p", { class: "muted", id: "tail-state" });
  const list = new VirtualList({
    label: "Receipts",
    draw: (row) => line(row, nameOf),
    onChoose: (row) => replace(side, row.gap ? null : details(row)),
    onTop: () => older(),
    onScroll: (atEnd) => atEnd || pause(),
  });
  const pauseButton = el("button", { type: "button", click: toggle }, "Pause");

  function nameOf(receipt) {
    const session = store.sessions.get(`${receipt.adapter_id}/${receipt.harness_session_id}`);
    return session?.name ?? (receipt.harness_session_id ? `${receipt.adapter_id} …${receipt.harness_session_id.slice(-6)}` : receipt.adapter_id);
  }

  function show(shift = 0) {
    list.set(window.rows, { shift });
    setText(pauseButton, window.isPaused ? "Go on" : "Pause");
    const behind = window.isPaused ? ` · paused, ${window.behind.toLocaleString()} behind` : " · live";
    const first = window.rows.find((row) => !row.gap)?.position;
    const range = first ? ` from position ${first} to ${window.through}` : "";
    setText(summaryLine, `${count(window.rows.length, "receipt")}${range}${behind}`);
  }

  function pause() {
    window.isPaused = true;
    list.follows = false;
    show();
  }

  async function toggle() {
    if (!window.isPaused) return pause();
    await window.catchUp(store.newest);
    list.follow();
    return show();
  }

  let reading = null;
  async function older() {
    // One page at a time: scrolling asks again and again.
    reading ??= window.readOlder(store.status?.ledger.floor ?? 0).then((found) => found && show(found)).finally(() => (reading = null));
    await reading;
  }

  async function jump(position) {
    await window.jump(position, store.newest);
    list.follows = false;
    show();
    const index = window.rows.findIndex((row) => row.position >= position);
    if (index >= 0) list.choose(index);
  }

  /** Show what the address asks for, once it is known which session that is. */
  function start() {
    const found = resolveSession(filters, store);
    replace(fault, found.fault ?? "");
    isOpen = !found.fault;
    if (!isOpen) return;
    window.filters = found.filters;
    if (at) jump(Number(at));
    else if (store.recent.length || store.status?.ledger.head === 0) begin();
  }

  function begin() {
    window.begin(store.recent, store.newest);
    list.follow();
    show();
    // A filter that fits little of what is known: more is read at once.
    if (window.rows.length < 50) older();
  }

  const stop = store.listen(({ rows, loaded, sessions }) => {
    if (!isOpen && sessions) start();
    else if (!isOpen) return;
    else if (loaded && !at) begin();
    else if (rows) show(-window.take(rows));
    else if (sessions) list.redraw();
  });
  start();

  return {
    node: el("section", { class: "tail" },
      el("h1", {}, "Tail"),
      toolbar({ filters, navigate, pauseButton, jump }),
      fault,
      summaryLine,
      el("div", { class: "split" }, list.node, side)),
    keys: { j: () => list.move(1), k: () => list.move(-1), " ": toggle, "/": () => document.getElementById("filter-session").focus() },
    close() {
      stop();
      list.close();
    },
  };
}

/** Return the filters with the session's harness and id, or what is wrong: names and ids are known for sessions alone. */
function resolveSession(filters, store) {
  const { session, adapter } = filters;
  if (!session) return { filters };
  const isMeant = (one) => (!adapter || one.adapterId === adapter) && (one.sessionId === session || one.name === session);
  const found = [...store.sessions.values()].filter(isMeant);
  if (found.length === 1) return { filters: { ...filters, adapter: found[0].adapterId, session: found[0].sessionId } };
  if (found.length) return { fault: `${session} is a session of ${found.map((one) => one.adapterId).join(" and ")}: choose the harness, too.` };
  if (adapter) return { filters };
  return { fault: `No session is called ${session}, and none has that id. Choose its harness, too, if it is an old one.` };
}

function toolbar({ filters, navigate, pauseButton, jump }) {
  const change = (name) => (event) => navigate("tail", [], { ...filters, [name]: event.target.value });
  const position = el("input", { id: "filter-position", type: "number", min: "1", placeholder: "position" });
  return el("form", {
    class: "toolbar",
    submit: (event) => {
      event.preventDefault();
      if (position.value) jump(Number(position.value));
    },
  },
  choice("adapter", "Harness", ["claude", "codex", "gemini", "hermes", "openclaw", "opencode"], filters.adapter, change("adapter")),
  choice("event", "Event", Object.keys(MARKS), filters.event, change("event")),
  choice("status", "Status", STATUSES, filters.status, change("status")),
  el("label", {}, "Session ", el("input", {
    id: "filter-session", value: filters.session ?? "", placeholder: "name or id", size: "14", change: change("session"),
  })),
  el("label", {}, "Jump to ", position),
  pauseButton);
}

function choice(name, label, values, chosen, change) {
  const known = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  return el("label", {}, `${label} `, el("select", { id: `filter-${name}`, change },
    el("option", { value: "" }, "any"),
    ...known.map((one) => el("option", { value: one, selected: one === chosen }, one))));
}

/** Return the command that shows the same. */
export function command({ parameters: { adapter, session, event, status } }) {
  return commandLine("tail",
    session && adapter ? ["--session", `${adapter}/${session}`] : adapter ? ["--adapter", adapter] : [],
    event ? ["--event", event] : [], status ? ["--status", status] : []);
}
