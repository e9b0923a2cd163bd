// Every screen: its name in addresses, its key after `g`, the scope without which it is not shown, and its module.

import { el } from "./dom.js";

/** In the order of the navigation; a module is loaded when its screen is first opened. */
export const SCREENS = [
  { name: "now", label: "Now", key: "n", scope: "read", load: () => import("./screens/now.js") },
  { name: "session", label: "Session", key: "s", scope: "read", load: () => import("./screens/session.js") },
  { name: "tail", label: "Tail", key: "t", scope: "read", load: () => import("./screens/tail.js") },
  { name: "inbox", label: "Inbox", key: "i", scope: "read", load: () => import("./screens/inbox.js") },
  { name: "jobs", label: "Jobs", key: "j", scope: "read", load: () => import("./screens/jobs.js") },
  { name: "clients", label: "Clients", key: "c", scope: "read", load: () => import("./screens/clients.js") },
  { name: "capabilities", label: "Capabilities", key: "k", scope: "read", load: () => import("./screens/capabilities.js") },
  { name: "ledger", label: "Ledger", key: "l", scope: "read", load: () => import("./screens/ledger.js") },
  { name: "hooks", label: "Hooks", key: "h", scope: "read", load: () => import("./screens/hooks.js") },
  { name: "doctor", label: "Doctor", key: "d", scope: "read", load: () => import("./screens/doctor.js") },
];

/** Return the screens that a scope may see. */
export function screensFor(scope) {
  return SCREENS.filter((one) => one.scope === "read" || one.scope === scope);
}

/** Return what an address names: `#/session/claude/ID?at=7` has a name, parts and parameters. */
export function placeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...parts] = path.split("/").map(decoded);
  return { name, parts, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/** Return the address of a place; parameters that are empty are left out. */
export function addressOf(name, parts = [], parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return `#/${[name, ...parts].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

/** Return the links of the navigation. */
export function links(scope) {
  return screensFor(scope).map(({ name, label, key }) => el("a", {
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
