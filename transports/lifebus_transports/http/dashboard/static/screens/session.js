// The screen "Session": the course of one session on an axis of time, its receipts, and a file of it all.

import { read } from "../access.js";
import { commandLine } from "../command.js";
import { el, replace, setText } from "../dom.js";
import { count, duration, moment } from "../format.js";
import { VirtualList } from "../list.js";
import { badge, empty, keepFocus, reading, section, table, time } from "../parts.js";
import { details, line } from "../receipts.js";
import { addressOf } from "../screens.js";
import { nameOf, sessionPlace, stateOf } from "../sessions.js";
import { rowOf, sessionKey } from "../store.js";
import { drawCourse, timeAt } from "./session_drawing.js";
import { saveSession } from "./session_export.js";
import { courseOf, momentOf } from "./session_model.js";
import { headOf, tablesOf } from "./session_parts.js";

const MOST = 20_000; // receipts that are kept; of a longer session the newest
const LISTED = 200; // sessions that are offered
const PAGE = 1_024;
const SOON_MS = 1_000;
const TICK_MS = 5_000; // how often what is open grows

/** Return the command that shows the same. */
export function command({ parts: [adapter, session] }) {
  return adapter && session ? commandLine("sessions", `${adapter}/${session}`) : commandLine("sessions");
}

/** Open the screen of the session that the address names, or a list of sessions. */
export function open(context, { parts: [adapter, session], parameters }) {
  if (!adapter || !session) return choose(context);
  let course = null;
  const view = reading({
    context,
    read: () => readAll(adapter, session),
    draw: (rows) => {
      course?.close();
      if (!rows.length) return el("p", { class: "empty" }, `There is no receipt of ${adapter}/${session}.`);
      course = new SessionView({ context, adapter, session, rows, at: Number(parameters.at) || null });
      return course.node;
    },
  });
  // A link may be opened before its session says anything.
  const stop = context.store.listen(({ rows = [] }) => {
    if (!course && rows.some(({ receipt }) => receipt && isOf(receipt, adapter, session))) view.again();
  });
  return {
    node: el("section", { class: "session" }, view.node),
    keys: {
      j: () => course?.step(1), k: () => course?.step(-1), "[": () => course?.step(-1), "]": () => course?.step(1),
      "+": () => course?.zoom(0.5), "-": () => course?.zoom(2), e: () => course?.save(),
    },
    close() {
      stop();
      view.close();
      course?.close();
    },
  };
}

function choose({ store }) {
  const list = el("div", {});
  const draw = () => {
    const all = [...store.sessions.values()].sort((one, other) => other.lastAtMs - one.lastAtMs);
    const rows = all.slice(0, LISTED);
    keepFocus(list, () => replace(list, table({
      label: "Sessions", rows, none: "No session is known yet.",
      columns: [
        ["session", (one) => el("a", { href: sessionPlace(one), id: `choose-${one.adapterId}-${one.sessionId}` }, nameOf(one))],
        ["state", (one) => badge(...stateOf(one))],
        ["harness", (one) => one.adapterId],
        ["turns", (one) => String(one.turns ?? "")],
        ["last sign of life", (one) => time(one.lastAtMs)],
      ],
    }), all.length > LISTED ? empty(`These are the newest ${LISTED} of ${all.length}; \`lifebus sessions\` lists all.`) : null));
  };
  draw();
  return { node: el("section", {}, el("h1", {}, "Session"), el("p", {}, "Choose a session."), list), close: store.listen(({ sessions }) => sessions && draw()) };
}

function isOf(receipt, adapter, session) {
  return receipt.adapter_id === adapter && receipt.harness_session_id === session;
}

async function readAll(adapter, session) {
  let rows = [];
  let after = 0;
  for (let complete = false; !complete; ) {
    const page = await read("/api/receipts", { adapter, session, after, limit: PAGE });
    rows = [...rows, ...page.items.map(rowOf)].slice(-MOST);
    ({ complete, next: after } = page);
  }
  return rows;
}

/** The course of one session, which grows as receipts come. */
class SessionView {
  constructor({ context, adapter, session, rows, at }) {
    Object.assign(this, { context, adapter, session, rows });
    this.drawing = el("div", { class: "drawing", click: (event) => this.clicked(event) });
    this.head = el("div", {});
    this.tables = el("div", {});
    this.now = el("p", { class: "muted", id: "session-moment", role: "status" });
    this.side = el("aside", { "aria-label": "The chosen receipt", tabindex: "0" });
    this.scrubber = el("input", {
      type: "range", id: "scrubber", min: 0, step: 1, "aria-label": "Receipt, from the first to the last",
      input: () => this.choose(Number(this.scrubber.value)),
    });
    this.list = new VirtualList({ label: "Receipts of the session", draw: (row) => line(row, () => ""), onChoose: (_, index) => this.choose(index) });
    this.scale = 1; // the part of the course that is seen
    this.build();
    const known = at === null ? -1 : rows.findIndex((row) => (row.sequence ?? row.position) >= at);
    this.choose(known < 0 ? rows.length - 1 : known, { isQuiet: at === null });
    this.stop = context.store.listen((change) => this.changed(change));
    this.timer = setInterval(() => this.course.isOpen && this.drawSoon(), TICK_MS);
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.drawing);
  }

  get item() {
    return this.context.store.sessions.get(sessionKey(this.adapter, this.session));
  }

  build() {
    const button = (label, act, id) => el("button", { type: "button", id, click: act }, label);
    this.title = el("h1", {}, this.name);
    this.node = el("div", {}, this.title, this.head,
      el("div", { class: "toolbar" },
        button("◀ Previous", () => this.step(-1), "session-previous"), button("Next ▶", () => this.step(1), "session-next"),
        button("Zoom in", () => this.zoom(0.5), "session-in"), button("Zoom out", () => this.zoom(2), "session-out"),
        button("Export as a file", () => this.save(), "session-export"),
        el("a", { href: addressOf("tail", [], { adapter: this.adapter, session: this.session }) }, "In the tail")),
      this.drawing, this.scrubber, this.now,
      section("Receipts", el("div", { class: "split short" }, this.list.node, this.side)),
      this.tables);
    this.rebuild();
  }

  get name() {
    return this.item ? nameOf(this.item) : `${this.adapter}/${this.session}`;
  }

  /** Work out the course again, for there are more receipts or a newer head. */
  rebuild() {
    this.course = courseOf(this.rows, Date.now());
    setText(this.title, this.name);
    keepFocus(this.head, () => replace(this.head, headOf(this.item, this.course)));
    const { frames, gaps, losses } = this.course;
    const told = JSON.stringify([frames, gaps, losses]);
    if (told !== this.told) keepFocus(this.tables, () => replace(this.tables, ...tablesOf(this.course)));
    this.told = told;
    this.list.set(this.rows);
    this.scrubber.max = this.rows.length - 1;
  }

  get view() {
    const { from, through } = this.course;
    const whole = Math.max(through - from, 1000);
    const half = (whole * this.scale) / 2;
    const middle = Math.min(Math.max(this.at ?? from, from + half), from + whole - half);
    return { from: middle - half, through: middle + half };
  }

  draw() {
    const width = this.drawing.clientWidth;
    if (!width) return;
    if (!this.isShown) {
      // What has no height yet cannot scroll to a row.
      this.isShown = true;
      this.list.choose(this.index);
    }
    replace(this.drawing, drawCourse({ course: this.course, width, view: this.view, at: this.at }));
  }

  /** Draw once for many receipts; who is at the end stays there. */
  drawSoon() {
    this.waiting ??= setTimeout(() => {
      this.waiting = null;
      const isAtEnd = this.index === Number(this.scrubber.max);
      const extra = this.rows.length > MOST * 1.25 ? this.rows.length - MOST : 0;
      this.rows.splice(0, extra);
      this.list.chosen = this.index = Math.max(0, this.index - extra);
      this.rebuild();
      if (isAtEnd) this.choose(this.rows.length - 1, { isQuiet: true });
      else this.draw();
    }, SOON_MS);
  }

  changed({ rows = [], sessions }) {
    const known = this.rows.at(-1).position;
    const fresh = rows.filter(({ receipt, position }) => position > known && receipt && isOf(receipt, this.adapter, this.session));
    this.rows.push(...fresh);
    if (fresh.length || sessions) this.drawSoon();
  }

  step(by) {
    this.choose(Math.min(this.rows.length - 1, Math.max(0, this.index + by)));
  }

  zoom(by) {
    this.scale = Math.min(1, Math.max(1 / 4096, this.scale * by));
    this.draw();
  }

  /** Go to a receipt; the address names it, unless that is where the screen goes by itself. */
  choose(index, { isQuiet = false } = {}) {
    if (index === this.index && !isQuiet) return;
    this.index = index;
    const row = this.rows[index];
    this.at = row.at;
    this.scrubber.value = index;
    this.scrubber.setAttribute("aria-valuetext", `${row.receipt.event}, ${moment(row.at)}`);
    if (this.list.chosen !== index) this.list.choose(index);
    replace(this.side, details(row));
    setText(this.now, this.said(row, index));
    this.draw();
    const place = addressOf("session", [this.adapter, this.session], isQuiet ? {} : { at: row.sequence ?? row.position });
    history.replaceState(null, "", place);
  }

  said(row, index) {
    const { open, used } = momentOf(this.course, row.at);
    const frames = open.map((one) => `${one.label} for ${duration(row.at - one.from)}`);
    return [
      `${index + 1} of ${count(this.rows.length, "receipt")}`, moment(row.at), frames.length ? `open: ${frames.join(", ")}` : "no frame is open",
      used === null ? "" : `context ${used} %`,
    ].filter(Boolean).join(" · ");
  }

  clicked(event) {
    const { left, width } = this.drawing.getBoundingClientRect();
    const time = timeAt(event.clientX - left, width, this.view);
    const later = this.rows.findIndex((row) => row.at >= time);
    const index = later < 0 ? this.rows.length - 1 : later;
    const isNearer = index > 0 && time - this.rows[index - 1].at < this.rows[index].at - time;
    this.choose(isNearer ? index - 1 : index);
  }

  save() {
    return this.context.guard(saveSession({ name: this.name, session: this.item, course: this.course }));
  }

  close() {
    this.stop();
    clearInterval(this.timer);
    this.resizing.disconnect();
    clearTimeout(this.waiting);
    this.list.close();
  }
}
