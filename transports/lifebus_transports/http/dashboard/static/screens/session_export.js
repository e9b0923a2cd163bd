// A session as one file: a page without any script, which shows the course of the session wherever it is opened.

import { el, replace } from "../dom.js";
import { bytes, count, moment } from "../format.js";
import { table } from "../parts.js";
import { summary } from "../receipts.js";
import { drawCourse } from "./session_drawing.js";
import { headOf, tablesOf } from "./session_parts.js";

const WIDTH = 1100; // pixels of its drawing
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

/** Have the browser keep the file. */
export async function saveSession({ name, session, course }) {
  const style = await (await fetch("/dashboard/style.css")).text();
  const address = URL.createObjectURL(new Blob([fileOf({ name, session, course, style })], { type: "text/html" }));
  const link = el("a", { href: address, download: `${name.replaceAll(/[^\w.-]+/g, "-")}.html` });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Return the text of the file. */
function fileOf({ name, session, course, style }) {
  const page = document.implementation.createHTMLDocument(name);
  page.documentElement.lang = "en";
  page.head.append(
    el("meta", { charset: "utf-8" }),
    el("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }),
    el("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
  replace(page.body, el("main", {},
    el("h1", {}, name),
    el("p", {}, says(course)),
    headOf(session, course),
    el("div", { class: "scroll" }, drawCourse({ course, width: WIDTH, view: { from: course.from, through: Math.max(course.through, course.from + 1000) }, at: null })),
    ...tablesOf(course),
    el("section", {}, el("h2", {}, "Receipts"), receiptsOf(course))));
  const written = new XMLSerializer().serializeToString(page.documentElement);
  // The policy of this page holds for every document that it makes, and forbids a style in it: the text gets it.
  return `<!doctype html>\n${written.replace("</head>", () => `<style>${style}</style></head>`)}\n`;
}

function says(course) {
  return `Saved ${moment(Date.now())} by the lifebus dashboard. This file holds ${count(course.rows.length, "receipt")} of one session: `
    + "events, times, ids, facts such as the directory, and where payloads were placed, with their sizes. "
    + "It holds no body of a payload and no transcript, runs no script, and asks no server for anything.";
}

function receiptsOf(course) {
  return table({
    label: "Receipts", rows: course.rows,
    columns: [
      ["number", ({ sequence, position }) => String(sequence ?? position)],
      ["time", ({ at }) => moment(at)],
      ["event", ({ receipt }) => receipt.event],
      ["status", ({ receipt }) => receipt.status],
      ["facts", ({ receipt }) => summary(receipt)],
      ["payloads", ({ receipt }) => receipt.payload_receipts
        .map((one) => `${one.payload_kind} → ${one.placement ?? one.status}, ${bytes(one.byte_size)}`).join("; ")],
    ],
  });
}
