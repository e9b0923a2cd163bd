// Who this page is: the login by a link, the key that it keeps, and requests to the gateway.

const KEY = "lifebus.key";
const SCOPE = "lifebus.scope";
const USUAL_MS = 20_000; // how long an answer is waited for

/** How long a report is waited for: a command makes it. */
export const REPORT_MS = 70_000;

/** A request that the gateway refused, in its words. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.message ?? `the gateway answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
  }
}

/** The page is not logged in, or not any more. */
export class LoggedOut extends Error {}

/** Log in with the code of the address, if it has one; return what this page may do, null where nobody is logged in. */
export async function login() {
  const code = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (code) {
    // A code works once: nobody should find it in the history.
    history.replaceState(null, "", "/#/now");
    const answer = await send("POST", "/api/login", { code });
    const body = await answer.json();
    if (!answer.ok) throw new Refused(answer.status, body);
    localStorage.setItem(KEY, body.key);
    localStorage.setItem(SCOPE, body.scope);
  }
  return localStorage.getItem(KEY) ? localStorage.getItem(SCOPE) : null;
}

/** Forget who this page is. */
export async function logout() {
  try {
    await request("POST", "/api/logout", {});
  } finally {
    localStorage.removeItem(KEY);
    localStorage.removeItem(SCOPE);
  }
}

/** Return the body of an answer.  Throws `LoggedOut`, `Refused`, or what `fetch` throws without a network. */
export async function request(method, path, body, waitMs = USUAL_MS) {
  const answer = await send(method, path, body, waitMs);
  const found = await answer.json();
  if (answer.status === 401) throw new LoggedOut(found.message);
  if (!answer.ok) throw new Refused(answer.status, found);
  return found;
}

/** Return what a route reads, within `waitMs`; parameters that are empty are left out. */
export function read(path, parameters = {}, waitMs = USUAL_MS) {
  const given = Object.entries(parameters).filter(([, value]) => !["", null, undefined].includes(value));
  const query = new URLSearchParams(given).toString();
  return request("GET", query ? `${path}?${query}` : path, undefined, waitMs);
}

function send(method, path, body, waitMs = USUAL_MS) {
  const headers = { "X-Lifebus-Page": localStorage.getItem(KEY) ?? "" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(waitMs);
  return fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
}
