// The part of the ledger that the tail shows: at most so many rows without a hole, read from the ledger around it.

import { read } from "../access.js";
import { rowOf } from "../store.js";

export const MOST = 4_000;
const PAGE = 1_024;

/** Rows that fit the filters, in order; `from` and `through` are the positions between which nothing is missing. */
export class TailWindow {
  constructor(filters) {
    this.filters = filters;
    this.rows = [];
    this.from = 0;
    this.through = 0;
    this.behind = 0;
    this.isPaused = false;
  }

  /** Whether a row fits the filters. */
  fits({ receipt, gap }) {
    const { adapter, session, event, status } = this.filters;
    if (gap) return true;
    return (!adapter || receipt.adapter_id === adapter) && (!session || receipt.harness_session_id === session)
      && (!event || receipt.event === event) && (!status || receipt.status === status);
  }

  /** Begin with rows that are known, which reach up to the newest position. */
  begin(rows, newest) {
    this.from = rows.length ? rows[0].position - 1 : newest;
    this.through = newest;
    this.rows = rows.filter((row) => this.fits(row)).slice(-MOST);
    this.behind = 0;
  }

  /** Take rows of the stream; while the tail is paused they are counted alone, for the ledger keeps them. */
  take(rows) {
    const fitting = rows.filter((row) => this.fits(row));
    if (this.isPaused) {
      this.behind += fitting.length;
      return 0;
    }
    this.through = rows.at(-1).position;
    this.rows.push(...fitting);
    return this.trim();
  }

  /** Read what lies before the window; return how many rows that are. */
  async readOlder(floor) {
    const found = [];
    // A filter may leave out many pages: they are read until one has rows.
    while (this.from > floor && !found.length) {
      const after = Math.max(floor, this.from - PAGE);
      const page = await this.page(after, this.from - after);
      found.unshift(...page.items.map(rowOf).filter((row) => row.position <= this.from));
      this.from = after;
    }
    this.rows.unshift(...found);
    if (this.rows.length > MOST) this.cutEnd();
    return found.length;
  }

  /** Show the rows from a position on; the tail is paused there. */
  async jump(position, newest) {
    const page = await this.page(Math.max(0, position - 1 - PAGE / 4), PAGE);
    this.rows = page.items.map(rowOf);
    this.from = Math.max(0, position - 1 - PAGE / 4);
    this.through = page.next;
    this.isPaused = !page.complete;
    this.behind = Math.max(0, newest - this.through);
  }

  /** Read everything that came since the pause; where that is too much, what is newest. */
  async catchUp(newest) {
    if (newest - this.through > MOST) {
      this.rows = [];
      this.from = this.through = newest - PAGE;
    }
    for (let complete = false; !complete; ) {
      const page = await this.page(this.through, PAGE);
      this.rows.push(...page.items.map(rowOf));
      this.through = page.next;
      ({ complete } = page);
    }
    this.trim();
    this.isPaused = false;
    this.behind = 0;
  }

  page(after, limit) {
    return read("/api/receipts", { ...this.filters, after, limit });
  }

  trim() {
    const extra = this.rows.length - MOST;
    // Many at once: the list shifts once, and not with every receipt.
    if (extra < MOST / 4) return 0;
    this.rows.splice(0, extra);
    this.from = this.rows[0].position - 1;
    return extra;
  }

  cutEnd() {
    const cut = this.rows.splice(MOST);
    this.through = this.rows.at(-1).position;
    this.behind += cut.length;
    this.isPaused = true;
  }
}
