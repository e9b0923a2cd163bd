// A list of which only the visible rows are drawn, whatever its length; keys move the chosen row.

import { el } from "./dom.js";

export const ROW = 28; // pixels; the style sheet has the same height
const BEYOND = 8; // rows that are drawn above and below what is visible

/** A list box over `rows`, of which `draw(row)` makes the content; `onChoose(row, index)` gets the row that is chosen. */
export class VirtualList {
  constructor({ label, draw, onChoose, onTop, onScroll }) {
    this.rows = [];
    this.drawn = new Map(); // row → its line: what was drawn and is still seen is left as it is
    this.chosen = -1;
    this.draw = draw;
    this.on = { onChoose, onTop, onScroll };
    this.space = el("div", { class: "space", role: "presentation" });
    this.node = el("div", {
      class: "list", role: "listbox", tabindex: "0", "aria-label": label,
      scroll: () => this.scrolled(), keydown: (event) => this.key(event), click: (event) => this.clicked(event),
    }, this.space);
    this.follows = true;
    this.resizing = new ResizeObserver(() => this.paint());
    this.resizing.observe(this.node);
  }

  /** Show other rows; where the list follows, its end stays in view. */
  set(rows, { shift = 0 } = {}) {
    this.rows = rows;
    if (this.chosen >= 0) this.chosen = this.chosen + shift >= 0 ? Math.min(this.chosen + shift, rows.length - 1) : -1;
    this.shift = (this.shift ?? 0) + shift;
    if (shift) this.drawn.clear();
    this.paintSoon();
  }

  /** Draw every row again, for what they are drawn from has changed. */
  redraw() {
    this.drawn.clear();
    this.paintSoon();
  }

  /** Go to the end, and stay there. */
  follow() {
    this.follows = true;
    this.paintSoon();
  }

  /** Show a row in the middle, chosen. */
  choose(index) {
    this.chosen = index;
    this.follows = false;
    this.space.style.height = `${this.rows.length * ROW}px`;
    const top = index * ROW;
    const isVisible = top >= this.node.scrollTop && top + ROW <= this.node.scrollTop + this.node.clientHeight;
    if (!isVisible) this.node.scrollTop = top - this.node.clientHeight / 2;
    this.paint();
    this.on.onChoose?.(this.rows[index], index);
  }

  close() {
    this.resizing.disconnect();
    cancelAnimationFrame(this.waiting);
  }

  paintSoon() {
    this.waiting ??= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.waiting);
    this.waiting = null;
    const height = this.node.clientHeight;
    this.space.style.height = `${this.rows.length * ROW}px`;
    if (this.follows) this.node.scrollTop = this.rows.length * ROW;
    else if (this.shift) this.node.scrollTop += this.shift * ROW;
    this.shift = 0;
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.node.scrollTop + height) / ROW) + BEYOND);
    this.place(first, last);
    if (this.chosen >= first && this.chosen < last) this.node.setAttribute("aria-activedescendant", `row-${this.chosen}`);
    else this.node.removeAttribute("aria-activedescendant");
  }

  /** Have the rows between two places among the nodes, and no others. */
  place(first, last) {
    const wanted = this.rows.slice(first, last);
    const seen = new Set(wanted);
    for (const row of this.drawn.keys()) if (!seen.has(row)) this.drawn.delete(row);
    const lines = wanted.map((row, offset) => this.line(row, first + offset));
    const kept = new Set(lines);
    for (const node of [...this.space.children]) if (!kept.has(node)) node.remove();
    lines.forEach((line, offset) => {
      if (this.space.children[offset] !== line) this.space.insertBefore(line, this.space.children[offset] ?? null);
    });
  }

  line(row, index) {
    let line = this.drawn.get(row);
    if (!line || line.dataset.index !== String(index)) {
      line = el("div", {
        class: row.gap ? "row gap" : "row", role: "option", id: `row-${index}`, "data-index": index, "aria-posinset": index + 1, "aria-setsize": -1,
      }, this.draw(row));
      line.style.top = `${index * ROW}px`;
      this.drawn.set(row, line);
    }
    const isChosen = String(index === this.chosen);
    if (line.getAttribute("aria-selected") !== isChosen) line.setAttribute("aria-selected", isChosen);
    return line;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.node;
    const atEnd = scrollTop + clientHeight >= scrollHeight - ROW / 2;
    if (atEnd !== this.follows) {
      this.follows = atEnd;
      this.on.onScroll?.(atEnd);
    }
    if (scrollTop < ROW && this.rows.length) this.on.onTop?.();
    this.paintSoon();
  }

  clicked(event) {
    const line = event.target.closest(".row");
    if (line) this.choose(Number(line.dataset.index));
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.move(step);
  }

  /** Choose the row that is so many rows further. */
  move(step) {
    const from = this.chosen >= 0 ? this.chosen : this.rows.length;
    if (this.rows.length) this.choose(Math.min(this.rows.length - 1, Math.max(0, from + step)));
  }
}
