// The stream of receipts: one WebSocket that comes back by itself, and says whether anything was missed.

import { LoggedOut, request } from "./access.js";

const PING_MS = 5_000; // how often the gateway is asked whether it is there
const SILENT_MS = 12_000; // after how long without an answer the connection is given up
const DOUBT_MS = 1_000; // how long an answer is waited for after that
const PAUSES_MS = [250, 500, 1_000, 2_000, 4_000, 8_000];

/** Follows the receipts; `onReceipts` gets lists in order, `onState` every change of `state`. */
export class Feed {
  constructor({ onReceipts, onState, onGap, onReady }) {
    this.state = { word: "connecting", since: Date.now(), resume: "none", missing: [] };
    this.lastId = null;
    this.on = { onReceipts, onState, onGap, onReady };
    this.tries = 0;
    this.heard = 0;
    setInterval(() => this.check(), PING_MS);
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => this.check());
  }

  /** Open the stream, and keep it open. */
  async open() {
    clearTimeout(this.timer);
    this.timer = null;
    const attempt = (this.attempt = (this.attempt ?? 0) + 1);
    try {
      const { ticket } = await request("POST", "/api/tickets", {});
      if (attempt === this.attempt) this.connect(ticket);
    } catch (fault) {
      if (attempt !== this.attempt) return;
      if (fault instanceof LoggedOut) this.become("logged out", { why: fault.message });
      else this.later(fault);
    }
  }

  connect(ticket) {
    const query = new URLSearchParams({ topic: "receipts", batch: "true", ticket });
    if (this.lastId) query.set("lastEventId", this.lastId);
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/stream?${query}`);
    this.socket = socket;
    this.doubts = false;
    this.heard = Date.now();
    socket.onmessage = (message) => socket === this.socket && this.take(message.data);
    socket.onclose = () => socket === this.socket && this.lost("the connection ended");
  }

  take(data) {
    this.heard = Date.now();
    this.doubts = false;
    const receipts = [];
    for (const line of data.split("\n")) {
      const frame = JSON.parse(line);
      if (frame.type === "receipt") receipts.push(frame.payload);
      else if (frame.type === "ready") this.ready(frame.payload);
      else if (frame.type === "gap") this.gap([frame.payload]);
      if (frame.id) this.lastId = frame.id;
    }
    if (!receipts.length) return;
    if (this.state.until) this.caughtUp(receipts);
    this.on.onReceipts(receipts);
  }

  ready({ resume, topics, missing }) {
    this.tries = 0;
    const [{ after, head }] = topics;
    const from = this.state.from ?? null;
    // What follows up to `head` came while this page was away.
    this.become("live", { resume, behind: Math.max(0, head - after), until: head > after ? head : 0, from });
    if (missing.length) this.gap(missing);
    this.on.onReady({ resume, after, head });
  }

  gap(missing) {
    this.become("live", { ...this.state, missing: [...(this.state.missing ?? []), ...missing] });
    this.on.onGap(missing);
  }

  caughtUp(receipts) {
    const until = receipts.at(-1).position >= this.state.until ? 0 : this.state.until;
    this.become("live", { ...this.state, until });
  }

  /** Ask whether the gateway is there; give the connection up where nothing was heard for too long. */
  check() {
    const isSilent = this.socket && Date.now() - this.heard > SILENT_MS;
    if (isSilent && this.doubts) return this.lost("nothing was heard for too long");
    // Where the page itself stood still, what came meanwhile is about to be read.
    if (isSilent) setTimeout(() => this.check(), DOUBT_MS);
    this.doubts = isSilent;
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send('{"type":"ping"}');
    else if (!this.socket && !this.timer && this.state.word === "away") this.open();
  }

  hurry() {
    if (this.timer) this.open();
  }

  lost(why) {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.later(new Error(why));
  }

  later(fault) {
    const pause = PAUSES_MS[Math.min(this.tries, PAUSES_MS.length - 1)] * (0.75 + Math.random() / 2);
    this.tries += 1;
    const from = this.state.word === "away" ? this.state.from : Date.now();
    this.become("away", { why: fault.message, from, missing: this.state.missing });
    this.timer = setTimeout(() => this.open(), pause);
  }

  become(word, about) {
    this.state = { missing: [], ...about, word, since: word === this.state.word ? this.state.since : Date.now() };
    this.on.onState(this.state);
  }
}
