// Every screen: its name in addresses, its key after `g`, and its module.

import { el } from "./dom.js";

/** In the order of the navigation; a module is loaded when its screen is first opened. */
export const SCREENS = [
  { name: "now", label: "Now", key: "n", load: () => import("./screens/now.js") },
  { name: "session", label: "Session", key: "s", load: () => import("./screens/session.js") },
  { name: "tail", label: "Tail", key: "t", load: () => import("./screens/tail.js") },
  { name: "inbox", label: "Inbox", key: "i", load: () => import("./screens/inbox.js") },
  { name: "jobs", label: "Jobs", key: "j", load: () => import("./screens/jobs.js") },
  { name: "clients", label: "Clients", key: "c", load: () => import("./screens/clients.js") },
  { name: "capabilities", label: "Capabilities", key: "k", load: () => import("./screens/capabilities.js") },
  { name: "ledger", label: "Ledger", key: "l", load: () => import("./screens/ledger.js") },
  { name: "hooks", label: "Hooks", key: "h", load: () => import("./screens/hooks.js") },
  { name: "doctor", label: "Doctor", key: "d", load: () => import("./screens/doctor.js") },
];

/** Return what an address names: `#/session/claude/ID?at=7` has a name, parts and parameters. */
export function placeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...parts] = path.split("/").map(decoded);
  return { name, parts, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/** Return the address of a place; parameters that are empty are left out. */
export function addressOf(name, parts = [], parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => !["", null, undefined].includes(value));
  const query = new URLSearchParams(given).toString();
  return `#/${[name, ...parts].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

/** Return the links of the navigation. */
export function links() {
  return SCREENS.map(({ name, label, key }) => el("a", {
    href: addressOf(name), "data-screen": name, title: `Key: g ${key}`, "aria-keyshortcuts": `g ${key}`,
  }, label));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    // Somebody typed the address by hand.
    return part;
  }
}
