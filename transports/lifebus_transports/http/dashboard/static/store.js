// What the page knows: sessions, their pressure, the newest receipts, and how the broker is.

import { read } from "./access.js";
import { receiptTime } from "./format.js";

const RECENT = 1_000; // receipts that are read at the beginning
const PRESSURE_POINTS = 120; // measures that are kept of each session
const MEASURED = 20_000; // receipts that are searched for measures at the beginning
const REFRESH_MS = 1_000; // how often sessions are read again at most

/** The name of a session in addresses and maps. */
export function sessionKey(adapter, session) {
  return `${adapter}/${session}`;
}

/** Return a row of the lists for what the gateway sends. */
export function rowOf({ position, sequence, receipt }) {
  return { position, sequence, receipt, at: receiptTime(receipt) };
}

/** Holds it all, and calls its listeners after each change. */
export class Store {
  constructor() {
    this.sessions = new Map();
    this.pressure = new Map();
    this.status = null;
    this.recent = [];
    this.newest = 0;
    this.listeners = new Set();
    this.due = false;
  }

  /** Call a function after changes, with what came; return what ends that. */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Read what there is up to a position; what comes behind it is taken from the stream. */
  async load(head) {
    this.newest = Math.max(this.newest, head);
    const after = Math.max(0, head - RECENT);
    const [page] = await Promise.all([read("/api/receipts", { after, limit: RECENT }), this.refresh()]);
    const known = page.items.map(rowOf).filter((row) => row.position <= head);
    this.recent = [...known, ...this.recent.filter((row) => row.position > head)];
    this.tell({ loaded: true });
    await Promise.all(["context.pressure_observed", "context.compacted"].map((event) => this.readMeasures(event, head)));
    this.tell({ sessions: true });
  }

  /** Read what the contexts of the newest receipts were, page by page. */
  async readMeasures(event, head) {
    for (let complete = false, after = Math.max(0, head - MEASURED); !complete; ) {
      const page = await read("/api/receipts", { event, after, limit: 1024 });
      page.items.map(rowOf).forEach((row) => this.measure(row));
      ({ complete, next: after } = page);
    }
  }

  /** Take receipts of the stream, in order. */
  take(items) {
    const rows = items.map(rowOf);
    rows.forEach((row) => this.measure(row));
    this.newest = Math.max(this.newest, rows.at(-1).position);
    this.recent.push(...rows);
    if (this.recent.length > 2 * RECENT) this.recent.splice(0, this.recent.length - RECENT);
    this.tell({ rows });
    this.refreshSoon();
  }

  /** Take word of receipts that are gone: they stand as a gap between the others. */
  miss(missing) {
    const rows = missing.map((gap) => ({ gap, position: gap.through, at: Date.now() }));
    this.recent.push(...rows);
    this.tell({ rows });
  }

  /** Read sessions and status again. */
  async refresh() {
    const [sessions, status] = await Promise.all([read("/api/sessions"), read("/api/status")]);
    this.sessions = new Map(sessions.data.map((one) => [sessionKey(one.adapterId, one.sessionId), one]));
    this.status = status;
    for (const key of this.pressure.keys()) if (!this.sessions.has(key)) this.pressure.delete(key);
    this.tell({ sessions: true });
  }

  /** Read them again in a moment: many receipts come together. */
  refreshSoon() {
    if (this.due) return;
    this.due = true;
    setTimeout(() => {
      this.due = false;
      // Without a network the next receipt or reconnection asks again.
      this.refresh().catch(() => {});
    }, REFRESH_MS);
  }

  /** Keep a measure of a session's context. */
  measure({ receipt, at }) {
    const used = receipt.telemetry_summary.context_used_pct;
    const isMeasure = receipt.event === "context.pressure_observed" && typeof used === "number";
    if (!receipt.harness_session_id || !(isMeasure || receipt.event === "context.compacted")) return;
    const key = sessionKey(receipt.adapter_id, receipt.harness_session_id);
    const points = this.pressure.get(key) ?? [];
    if (points.some((one) => one.id === receipt.receipt_id)) return;
    points.push({ id: receipt.receipt_id, at, used: isMeasure ? used : null });
    points.sort((one, other) => one.at - other.at);
    if (points.length > PRESSURE_POINTS) points.splice(0, points.length - PRESSURE_POINTS);
    this.pressure.set(key, points);
  }

  tell(change) {
    for (const listener of this.listeners) listener(change);
  }
}
