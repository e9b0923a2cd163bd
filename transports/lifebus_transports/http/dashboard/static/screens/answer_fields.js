// The fields of an answer: what a person has to say, and values that an answer may change.

import { el } from "../dom.js";

/** Return `{ node, values }`: the fields, and what of an answer they stand for; fields that are empty are left out. */
export function fieldsOf(modifiable) {
  const message = el("textarea", { rows: "3", maxlength: "8192" });
  const fields = modifiable.map((one) => [one, control(one)]);
  return {
    node: el("div", { class: "fields" },
      ...fields.map(([one, field]) => el("label", {}, one.help ? `${one.name}: ${one.help}` : one.name, field)),
      el("label", {}, "What you have to say about it", message)),
    values() {
      const given = fields.filter(([, field]) => field.value !== "").map(([one, field]) => [one.name, valueOf(one, field.value)]);
      return { message: message.value, ...(given.length ? { modifications: Object.fromEntries(given) } : {}) };
    },
  };
}

function control({ kind, choices }) {
  const values = kind === "truth" ? [true, false] : choices;
  if (values.length) {
    return el("select", {}, el("option", { value: "" }, "as it is"),
      ...values.map((one) => el("option", { value: JSON.stringify(one) }, typeof one === "string" ? one : JSON.stringify(one))));
  }
  if (kind === "list") return el("textarea", { rows: "3", placeholder: "one a line" });
  return el("input", { type: kind === "integer" ? "number" : "text", placeholder: kind === "any" ? "text or JSON" : "" });
}

function valueOf({ kind, choices }, text) {
  if (kind === "truth" || choices.length) return JSON.parse(text);
  if (kind === "integer") return Number(text);
  if (kind === "list") return text.split("\n").filter(Boolean);
  if (kind === "text") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
