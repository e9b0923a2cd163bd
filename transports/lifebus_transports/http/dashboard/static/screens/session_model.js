// What the receipts of one session say about its course: frames in lanes, pressure, compactions, gaps, losses.

/** Return the course of a session; `rows` are its receipts in order, `now` ends what is still open. */
export function courseOf(rows, now) {
  const stays = new Spans();
  const frames = new Spans();
  const losses = new Spans();
  const course = { rows, measures: [], gaps: gapsOf(rows), from: rows[0]?.at ?? now, through: rows.at(-1)?.at ?? now };
  for (const { receipt, at } of rows) {
    const { event, telemetry_summary: facts } = receipt;
    const used = facts.context_used_pct;
    if (event.startsWith("frame.")) takeFrame(frames, receipt, at);
    else if (event === "session.starting" || event === "session.started") stays.open("session", at, {});
    else if (event === "session.ended") [stays, frames, losses].forEach((spans) => spans.closeAll(at));
    else if (event === "context.compacted") compacted(course.measures, receipt, at);
    else if (event === "context.pressure_observed" && typeof used === "number") course.measures.push({ at, used });
    else if (event === "capability.degraded") takeLosses(losses, receipt, at);
  }
  const isOpen = stays.isOpen || frames.isOpen;
  if (isOpen) course.through = Math.max(course.through, now);
  course.isOpen = isOpen;
  course.frames = named(frames.all);
  course.losses = losses.all;
  course.lanes = [{ label: "session", spans: stays.all }, ...lanesOf(frames.all, "turns", (one) => !one.parent),
    ...lanesOf(frames.all, "sub-agents", (one) => one.parent)];
  return course;
}

/** Give frames names for people: the kind of a sub-agent, the number of a turn. */
function named(frames) {
  let turns = 0;
  for (const one of frames) one.label = one.kind || (one.parent ? "sub-agent" : `turn ${(turns += 1)}`);
  return frames;
}

/** Return what was the case at a time: the open frames, and the last measure of the context. */
export function momentOf(course, at) {
  return {
    open: course.frames.filter((one) => one.from <= at && (one.through === null || one.through > at)),
    used: course.measures.filter((one) => one.used !== null && one.at <= at).at(-1)?.used ?? null,
  };
}

/** Spans of time by id; one id may have several, one after the other. */
class Spans {
  constructor() {
    this.all = [];
    this.current = new Map();
  }

  get isOpen() {
    return this.current.size > 0;
  }

  open(id, at, about) {
    const known = this.current.get(id);
    if (known) return Object.assign(known, Object.fromEntries(Object.entries(about).filter(([, value]) => value)));
    const span = { id, from: at, through: null, ...about };
    this.all.push(span);
    this.current.set(id, span);
    return span;
  }

  close(id, at) {
    const known = this.current.get(id);
    if (known) known.through = at;
    this.current.delete(id);
  }

  closeAll(at) {
    for (const id of [...this.current.keys()]) this.close(id, at);
  }
}

function takeFrame(frames, { event, status, telemetry_summary: facts }, at) {
  const id = facts.frame_id;
  if (!id) return;
  const about = { parent: facts.parent_frame_id ?? null, kind: facts.agent_type ?? "", status };
  if (event === "frame.ended") {
    // A ledger that was cut may have its end alone.
    if (frames.current.has(id)) frames.open(id, at, { status });
    frames.close(id, at);
  } else if (event !== "frame.ending") frames.open(id, at, about);
}

/** Each client that took part has a receipt of its own about one compaction. */
function compacted(measures, receipt, at) {
  const isKnown = measures.some((one) => one.used === null && one.invocation === receipt.invocation_id);
  if (!isKnown) measures.push({ at, used: null, invocation: receipt.invocation_id });
}

const STRENGTH = ["unavailable", "manual", "partial", "synthesized", "native"];

/** Return whether a capability became weaker. */
export function isLoss({ current_support: current, previous_support: previous }) {
  return STRENGTH.indexOf(current) < STRENGTH.indexOf(previous);
}

function takeLosses(losses, receipt, at) {
  for (const change of receipt.capability_degradations) {
    if (isLoss(change)) losses.open(change.capability, at, { evidence: change.evidence });
    else losses.close(change.capability, at);
  }
}

/** Return what is missing between receipts, and what the harness's own numbers say is missing. */
function gapsOf(rows) {
  const gaps = [];
  rows.forEach(({ sequence, receipt, at }, index) => {
    const before = rows[index - 1];
    const expected = (before?.sequence ?? 0) + 1;
    if (sequence !== null && sequence > expected && before?.sequence !== null) {
      const range = sequence - 1 === expected ? `receipt ${expected}` : `receipts ${expected} to ${sequence - 1}`;
      gaps.push({ from: before?.at ?? at, through: at, name: `${range} ${expected === sequence - 1 ? "is" : "are"} not kept any more` });
    }
    if (receipt.event === "receipt.gap_detected") gaps.push({ from: before?.at ?? at, through: at, name: detected(receipt) });
  });
  return gaps;
}

function detected({ telemetry_summary: facts }) {
  const said = Object.entries(facts).filter(([name, value]) => value !== null && name !== "cwd").map(([name, value]) => `${name} ${value}`);
  return `the harness's numbers have a gap: ${said.join(", ")}`;
}

/** Return lanes in which no two spans lie over each other. */
function lanesOf(spans, label, fits) {
  const lanes = [];
  for (const span of spans.filter(fits)) {
    let lane = lanes.find((one) => (one.spans.at(-1).through ?? Infinity) <= span.from);
    if (!lane) lanes.push((lane = { label: lanes.length ? `${label} ${lanes.length + 1}` : label, spans: [] }));
    lane.spans.push(span);
  }
  return lanes;
}
