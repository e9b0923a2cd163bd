// The drawing of a session: lanes of frames, pressure, receipts and gaps over one axis of time.

import { svg } from "../dom.js";
import { clock, duration, moment } from "../format.js";
import { tone } from "../receipts.js";

const LANE = 22; // pixels
const PRESSURE = 56;
const AXIS = 18;
const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800];

/** Return the drawing of a part of a course, `view` from one time to another; `at` is where the scrubber stands. */
export function drawCourse({ course, width, view, at }) {
  const left = width < 500 ? 66 : 92;
  const scale = (time) => left + ((time - view.from) / (view.through - view.from)) * (width - left - 8);
  const inside = (time) => Math.min(width - 8, Math.max(left, scale(time)));
  const lanes = course.lanes.map((lane, index) => drawLane(lane, AXIS + index * LANE, { inside, view, end: course.through }));
  const top = AXIS + course.lanes.length * LANE;
  const height = top + LANE + PRESSURE + 4;
  return svg("svg", {
    class: "course", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": described(course),
  },
  svg("defs", {}, hatching()),
  ...ticks(view, width - left).filter(([time]) => scale(time) < width - 28).map(([time, text]) => [
    svg("path", { d: `M${scale(time).toFixed(1)} ${AXIS}V${height}`, class: "tick" }),
    svg("text", { x: scale(time).toFixed(1), y: 12, "text-anchor": "middle" }, text),
  ]).flat(),
  ...lanes.flat(),
  ...drawReceipts(course, top, { scale, view, left }),
  ...drawPressure(course, top + LANE, { scale, inside, view, width, left }),
  ...[...course.gaps, ...course.losses.map((one) => ({ ...one, name: `${one.id} is lost: ${one.evidence}` }))]
    .filter((gap) => gap.from <= view.through && (gap.through ?? course.through) >= view.from)
    .map((gap) => hatched(gap, height, { inside, end: course.through })),
  ...(at === null ? [] : [svg("path", { d: `M${scale(at).toFixed(1)} 0V${height}`, class: "playhead", id: "playhead" })]));
}

/** Return the time at a place of the drawing. */
export function timeAt(x, width, view) {
  const left = width < 500 ? 66 : 92;
  return view.from + ((x - left) / (width - left - 8)) * (view.through - view.from);
}

function drawLane({ label, spans }, y, { inside, view, end }) {
  return [
    svg("text", { x: 2, y: y + 15 }, label),
    ...spans.filter((one) => one.from <= view.through && (one.through ?? end) >= view.from).map((one) => {
      const [from, through] = [inside(one.from), inside(one.through ?? end)];
      const open = one.through === null ? " open" : "";
      const kind = label === "session" ? "stay" : one.parent ? "nested" : "turn";
      return svg("g", {},
        svg("rect", { x: from.toFixed(1), y: y + 3, width: Math.max(2, through - from).toFixed(1), height: LANE - 6, rx: 3, class: `${kind}${open}${one.status === "failed" ? " failed" : ""}` },
          svg("title", {}, `${one.label ?? label}: ${moment(one.from)}, ${one.through === null ? "still open" : duration(one.through - one.from)}`)),
        through - from > 70 && kind !== "stay"
          ? svg("text", { x: (from + 5).toFixed(1), y: y + 15, class: "on" }, shortened(one.label, through - from)) : null);
    }),
  ];
}

function drawReceipts({ rows }, y, { scale, view, left }) {
  const drawn = new Set();
  const marks = rows.filter(({ at }) => at >= view.from && at <= view.through).flatMap(({ receipt, at }) => {
    const x = Math.round(scale(at));
    const kind = receipt.payload_receipts.length ? "payload" : tone(receipt) || "seen";
    // Of many that fall together one is drawn: a long session has more receipts than the screen has columns.
    if (drawn.has(`${x} ${kind}`)) return [];
    drawn.add(`${x} ${kind}`);
    const placed = receipt.payload_receipts.map((one) => `${one.payload_kind} → ${one.placement ?? one.status}`);
    return [svg("path", { d: SHAPES[kind](x, y + LANE / 2), class: `mark ${kind}` }, svg("title", {}, [receipt.event, ...placed].join("\n")))];
  });
  return [svg("text", { x: 2, y: y + 15 }, left < 80 ? "receipts" : "receipts, ✉"), ...marks];
}

/** A line for a fact, a square for payloads, a triangle up for a failure, down for a loss: shapes and not colours alone. */
const SHAPES = {
  seen: (x, y) => `M${x} ${y - 4}v8`,
  payload: (x, y) => `M${x - 4} ${y - 4}h8v8h-8z`,
  bad: (x, y) => `M${x - 5} ${y + 4}h10l-5 -9z`,
  warn: (x, y) => `M${x - 5} ${y - 4}h10l-5 9z`,
};

function drawPressure({ measures }, y, { scale, inside, view, width, left }) {
  const level = (used) => y + PRESSURE - 4 - (Math.min(100, used) / 100) * (PRESSURE - 8);
  const seen = measures.filter((one) => one.used !== null);
  const before = seen.filter((one) => one.at < view.from).at(-1);
  const shown = [...(before ? [before] : []), ...seen.filter((one) => one.at >= view.from && one.at <= view.through)];
  const line = shown.map((one, index) => `${index ? `H${inside(one.at).toFixed(1)}V` : `M${inside(one.at).toFixed(1)} `}${level(one.used).toFixed(1)}`).join("");
  const compactions = measures.filter((one) => one.used === null && one.at >= view.from && one.at <= view.through);
  return [
    svg("text", { x: 2, y: y + 14 }, "context"),
    svg("text", { x: 2, y: y + 28, class: "small" }, seen.length ? `${seen.at(-1).used} %` : "no measure"),
    svg("path", { d: `M${left} ${level(80)}H${width - 8}`, class: "limit" }, svg("title", {}, "80 %: high")),
    line ? svg("path", { d: `${line}H${inside(view.through).toFixed(1)}`, class: "measures" }) : null,
    ...compactions.map((one) => svg("g", {},
      svg("path", { d: `M${scale(one.at).toFixed(1)} ${y}v${PRESSURE}`, class: "compaction" }, svg("title", {}, `compacted ${moment(one.at)}`)),
      svg("text", { x: (scale(one.at) + 3).toFixed(1), y: y + 12, class: "small" }, "≍"))),
  ];
}

function hatched({ from, through, name }, height, { inside, end }) {
  const [x, until] = [inside(from), inside(through ?? end)];
  return svg("g", { class: "gap" },
    svg("rect", { x: (x - 2).toFixed(1), y: AXIS, width: Math.max(5, until - x + 4).toFixed(1), height: height - AXIS, fill: "url(#hatching)" }, svg("title", {}, name)),
    until - x > 90 ? svg("text", { x: (x + 4).toFixed(1), y: height - 6, class: "small" }, shortened(name, until - x)) : null);
}

function hatching() {
  return svg("pattern", { id: "hatching", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("path", { d: "M0 0V7", class: "hatch" }));
}

function ticks({ from, through }, width) {
  const step = STEPS_S.find((one) => (through - from) / (one * 1000) <= width / 95) ?? 2_592_000;
  const found = [];
  for (let time = Math.ceil(from / (step * 1000)) * step * 1000; time <= through; time += step * 1000) found.push([time, clock(time, time)]);
  return found;
}

function described({ rows, frames, measures, gaps, losses }) {
  const compactions = measures.filter((one) => one.used === null).length;
  return `Course: ${rows.length} receipts, ${frames.length} frames, ${frames.filter((one) => one.parent).length} of them sub-agents, `
    + `${compactions} compactions, ${gaps.length} gaps, ${losses.length} losses. The tables below say the same.`;
}

function shortened(text, pixels) {
  const letters = Math.floor(pixels / 7);
  return text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text;
}
