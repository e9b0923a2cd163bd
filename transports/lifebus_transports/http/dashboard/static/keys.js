// The keyboard: `g` and a letter go to a screen, `?` lists what there is; a screen has keys of its own.

import { el } from "./dom.js";
import { ask } from "./notice.js";
import { SCREENS } from "./screens.js";

const KEYS = [
  ["g, then a letter", SCREENS.map(({ key, label }) => `${key} ${label}`).join(", ")], ["j, k, arrows", "the next or previous row"],
  ["Home, End", "the first or last row"], ["space", "pause the tail, or go on"],
  ["/, Escape", "go to the filter, leave a field"], ["[, ]", "the receipt before or after, of a session"], ["+, -, e", "zoom in or out, export a session"], ["?", "these keys"],
];

/** Call what keys stand for; `keys` returns those of the screen. */
export function listenToKeys({ navigate, keys }) {
  let isGoing = false;
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, dialog");
    if (event.key === "Escape" && isTyping && !event.target.closest("dialog")) document.getElementById("main").focus();
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const wasGoing = isGoing;
    isGoing = event.key === "g";
    const found = wasGoing ? SCREENS.find(({ key }) => key === event.key) : undefined;
    if (found) return navigate(found.name);
    if (event.key === "?") return help();
    // A button that has the focus keeps its own keys.
    if (event.target.closest("button, a") && (event.key === " " || event.key === "Enter")) return undefined;
    const act = keys()[event.key];
    if (!act) return undefined;
    event.preventDefault();
    return act();
  });
}

/** Show every key. */
export function help() {
  return ask({ title: "Keys", action: "Done", body: el("dl", {}, ...KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])) });
}
