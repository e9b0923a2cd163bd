// How full a context was over time, as a small line; compactions are marked.

import { svg } from "./dom.js";

/** Return a drawing of measures; those without a value are compactions. */
export function pressureLine(points, { width, height }) {
  const measures = points.filter((one) => one.used !== null);
  if (measures.length < 2) return null;
  const begin = points[0].at;
  const end = Math.max(points.at(-1).at, begin + 1);
  const x = (at) => ((at - begin) / (end - begin)) * width;
  const y = (used) => height - 2 - (Math.min(100, used) / 100) * (height - 4);
  const line = measures.map((one, index) => `${index ? "L" : "M"}${x(one.at).toFixed(1)} ${y(one.used).toFixed(1)}`).join("");
  const compactions = points.filter((one) => one.used === null);
  const last = measures.at(-1).used;
  return svg("svg", {
    class: "pressure", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Context over time: ${last} % at last, ${compactions.length} compactions`,
  },
  svg("line", { x1: 0, x2: width, y1: y(80), y2: y(80), class: "limit" }),
  ...compactions.map((one) => svg("path", { d: `M${x(one.at).toFixed(1)} 0v${height}`, class: "compaction" })),
  svg("path", { d: line, class: "measures" }));
}
