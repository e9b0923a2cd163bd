// What sessions are to people: what they do, what they are called, and where their screen is.

const SILENT_MS = 5 * 60_000; // a session that works and says nothing for so long is shown as silent

/** Return what a session is doing: a symbol, a word, and a class. */
export function stateOf(session, at = Date.now()) {
  if (session.ended) return ["■", "ended", "quiet"];
  const waits = session.waiting ?? [];
  if (waits.some((one) => one.waitingFor !== "idle")) return ["⚑", "waits for you", "bad"];
  if (waits.length || !session.openFrames.length) return ["○", "idle", "quiet"];
  if (at - session.lastAtMs > SILENT_MS) return ["…", "silent", "warn"];
  return ["▶", "works", "good"];
}

/** Return a session's short name, or its whole id where it has none. */
export function nameOf(session) {
  return session.name ?? `${session.adapterId}/${session.sessionId}`;
}

/** Return the address of a session's screen. */
export function sessionPlace(session) {
  return `#/session/${encodeURIComponent(session.adapterId)}/${encodeURIComponent(session.sessionId)}`;
}
