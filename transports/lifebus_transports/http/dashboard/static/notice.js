// Short words to the person: notices that go away, questions before something is done, and the clipboard.

import { el, replace } from "./dom.js";

/** Say something for a moment, to screen readers too. */
export function say(text) {
  const line = el("p", { class: "notice" }, text);
  document.getElementById("announcements").append(line);
  setTimeout(() => line.remove(), 6_000);
}

/** Copy a text, and say so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${text}`);
  } catch {
    // Pages without TLS on another machine have no clipboard: the text is there to be taken by hand.
    await ask({ title: "Copy this", body: el("pre", { tabindex: "0" }, text), action: "Done" });
  }
}

/** Ask before something is done; return whether the person agreed. */
export function ask({ title, body, action, danger = false }) {
  const dialog = document.getElementById("dialog");
  const { id } = document.activeElement;
  return new Promise((resolve) => {
    const done = (answer) => () => {
      dialog.close();
      // What opened it may have been drawn again meanwhile.
      if (id) document.getElementById(id)?.focus();
      resolve(answer);
    };
    replace(dialog,
      el("h2", { id: "dialog-title" }, title),
      typeof body === "string" ? el("p", {}, body) : body,
      el("div", { class: "buttons" },
        el("button", { type: "button", click: done(false) }, "Close"),
        el("button", { type: "button", class: danger ? "danger" : "primary", click: done(true) }, action)));
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
}
