// When a person is told by the browser: the rules, as they decide.  Nothing here asks a clock or shows anything.

/** What can be told, in words. */
export const KINDS = {
  waits: "a session waits for a permission or an answer", escalations: "a flow needs an answer",
  pressure: "a context is nearly full", silence: "a harness fell silent",
};

/** The rules of a page where nobody chose others; times are in seconds. */
export const USUAL = { on: ["waits", "escalations", "pressure"], afterS: 10, groupS: 2, pressurePct: 80, quiet: "" };

const REARM_PCT = 10; // how far a context has to fall below the limit before it is told of again

/** Return whether a local time of day, in minutes, lies in hours such as `22:00-07:00`. */
export function isQuiet(quiet, minutes) {
  const found = /^(\d\d):(\d\d)-(\d\d):(\d\d)$/.exec(quiet);
  if (!found) return false;
  const [from, until] = [Number(found[1]) * 60 + Number(found[2]), Number(found[3]) * 60 + Number(found[4])];
  return from <= until ? from <= minutes && minutes < until : minutes >= from || minutes < until;
}

/** Decides what is told: each thing once, waits after their grace, and what comes together as one. */
export class Reminders {
  constructor(rules) {
    this.rules = rules;
    this.told = new Set();
    this.due = 0;
  }

  /** Return what is to be told now, null where nothing is; `minutes` is the local time of day. */
  take({ sessions, harnesses, nowMs, minutes }) {
    const standing = this.standing(sessions, harnesses, nowMs);
    // What is over may come again, and is told of then.
    for (const id of this.told) if (!standing.has(id)) this.told.delete(id);
    if (isQuiet(this.rules.quiet, minutes)) return null;
    const fresh = [...standing].filter(([id, one]) => !this.told.has(id) && one.isDue);
    if (!fresh.length) {
      this.due = 0;
      return null;
    }
    this.due ||= nowMs + this.rules.groupS * 1_000;
    if (nowMs < this.due) return null;
    this.due = 0;
    fresh.forEach(([id]) => this.told.add(id));
    return message(fresh.map(([, one]) => one.text));
  }

  /** Return everything that is so now, by an id that is the same for as long as it stays so. */
  standing(sessions, harnesses, nowMs) {
    const found = new Map();
    const add = (kind, id, text, isDue = true) => this.rules.on.includes(kind) && found.set(`${kind} ${id}`, { text, isDue });
    for (const [key, one] of sessions) {
      const name = one.name ?? key;
      for (const wait of one.waiting ?? []) {
        if (wait.waitingFor === "idle") continue;
        const what = `${wait.waitingFor === "permission" ? "a permission" : "an answer"}${wait.kind ? ` (${wait.kind})` : ""}`;
        add(wait.kind?.startsWith("flow.") ? "escalations" : "waits", `${key} ${wait.sinceMs}`, `${name} waits for ${what}`,
          nowMs - wait.sinceMs >= this.rules.afterS * 1_000);
      }
      const limit = this.rules.pressurePct - (this.told.has(`pressure ${key}`) ? REARM_PCT : 0);
      if (!one.ended && one.usedPct !== null && one.usedPct >= limit) add("pressure", key, `${name} has used ${one.usedPct} % of its context`);
    }
    for (const { adapterId, silent } of harnesses) if (silent.length) add("silence", adapterId, `${adapterId} is silent: ${silent.join(", ")}`);
    return found;
  }
}

function message(lines) {
  if (lines.length === 1) return { title: lines[0], body: "" };
  const shown = lines.slice(0, 5);
  return { title: `${lines.length} things need a look`, body: [...shown, ...(lines.length > 5 ? [`and ${lines.length - 5} more`] : [])].join("\n") };
}
