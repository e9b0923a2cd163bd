// The screen "Jobs": the queue's jobs with their cancellation, and what was said in sessions, page by page.

import { read } from "../access.js";
import { commandLine } from "../command.js";
import { el } from "../dom.js";
import { bytes, count } from "../format.js";
import { actHint, actionButton, badge, facts, reading, section, table, time } from "../parts.js";
import { addressOf } from "../screens.js";

const EVERY_MS = 5_000;
const STATES = { queued: ["○", "quiet"], running: ["▶", "good"], completed: ["✓", "quiet"], failed: ["✗", "bad"], canceled: ["◼", "quiet"] };
const SAID = { user: "a person", assistant: "the agent", system: "the system" };

/** Return the command that shows the same. */
export function command({ parts: [kind, id], parameters }) {
  if (kind === "job") return commandLine("jobs", "show", id);
  if (kind === "transcript") return commandLine("transcript", "show", id);
  return commandLine("jobs", "list", parameters.state ? ["--state", parameters.state] : []);
}

/** Open the screen; `#/jobs/job/ID` shows a job, `#/jobs/transcript/SESSION?after=N` a page of a transcript. */
export function open(context, place) {
  const [kind, id] = place.parts;
  const found = kind === "job" ? oneJob(context, id) : kind === "transcript" ? transcript(context, id, place) : overview(context, place);
  return { node: found.node, close: found.close };
}

function overview(context, { parameters }) {
  const { state = "", after, session } = parameters;
  const choose = (event) => context.navigate("jobs", [], { state: event.target.value });
  const parts = reading({
    context,
    everyMs: EVERY_MS,
    read: () => Promise.all([read("/api/orchestrator/jobs", { state, after }), read("/api/transcripts", { after: session, includeSystemOwned: true })]),
    draw: ([jobs, transcripts]) => [
      section("Jobs", jobTable(jobs.data), nextLink(jobs.next && { ...parameters, after: jobs.next }, "More jobs", after && { state, session })),
      section("Transcripts", transcriptTable(context, transcripts.data),
        nextLink(transcripts.next && { ...parameters, session: transcripts.next }, "More transcripts", session && { state, after })),
    ],
  });
  const filter = el("label", {}, "State ", el("select", { id: "job-state", change: choose },
    el("option", { value: "" }, "any"), ...Object.keys(STATES).map((one) => el("option", { value: one, selected: one === state }, one))));
  return { ...parts, node: el("section", {}, el("h1", {}, "Jobs and transcripts"), el("div", { class: "toolbar" }, filter), parts.node) };
}

function nextLink(next, words, first) {
  return [
    first && el("a", { href: addressOf("jobs", [], first), class: "more" }, "Back to the first"),
    next && el("a", { href: addressOf("jobs", [], next), class: "more" }, words),
  ];
}

function jobTable(jobs) {
  return table({
    label: "Jobs, the oldest first", rows: jobs, none: "There is no such job.",
    columns: [
      ["Job", (job) => el("a", { href: addressOf("jobs", ["job", job.id]) }, job.id)],
      ["Type", (job) => job.type], ["Project", (job) => job.projectId],
      ["State", (job) => badge(STATES[job.state][0], job.state, STATES[job.state][1])],
      ["Attempts", (job) => `${job.attempts} of ${job.maxAttempts}`],
      ["Queued", (job) => time(Date.parse(job.createdAt))],
      ["Error", (job) => job.error ?? ""],
    ],
  });
}

function transcriptTable({ store }, transcripts) {
  const named = new Map([...store.sessions.values()].map((one) => [one.sessionId, one.name]));
  return table({
    label: "Transcripts by session", rows: transcripts, none: "Nothing that was said is kept.",
    columns: [
      ["Session", (one) => el("a", { href: addressOf("jobs", ["transcript", one.sessionId]) }, named.get(one.sessionId) ?? one.sessionId)],
      ["Of", (one) => one.systemOwned ? "a worker of the broker" : "a session"],
      ["Entries", (one) => (one.entries ?? 0).toLocaleString()], ["Size", (one) => bytes(one.size ?? 0)],
      ["Newest", (one) => one.updatedAt ? time(one.updatedAt) : ""],
    ],
  });
}

function oneJob(context, id) {
  const path = `/api/orchestrator/jobs/${encodeURIComponent(id)}`;
  const parts = reading({
    context,
    everyMs: EVERY_MS,
    read: async () => (await read(path)).job,
    draw: (job) => [
      facts([
        ["type", job.type], ["project", job.projectId], ["state", badge(STATES[job.state][0], job.state, STATES[job.state][1])],
        ["error", job.error], ["attempts", `${job.attempts} of ${job.maxAttempts}`], ["priority", job.priority],
        ["session", job.sourceSessionId && el("a", { href: addressOf("jobs", ["transcript", job.sourceSessionId]) }, job.sourceSessionId)],
        ...["createdAt", "startedAt", "completedAt", "cancelRequestedAt", "nextAttemptAt"]
          .map((name) => [name.replace(/At$/, ""), job[name] && time(Date.parse(job[name]))]),
      ]),
      job.completedAt ? null : cancelButton(context, job, path, parts.again), job.completedAt ? null : actHint(context),
      section("What it was given", pretty(job.payload)), section("What came of it", job.result === null ? el("p", {}, "nothing yet") : pretty(job.result)),
    ],
  });
  return { ...parts, node: el("section", {}, el("h1", {}, `Job ${id}`), back(), parts.node) };
}

function cancelButton(context, job, path, again) {
  return actionButton({
    context, id: "cancel-job", label: "Cancel the job", danger: true, title: `Cancel the job ${job.id}`,
    question: "If it runs, it is asked to end and has a moment for it. What it did stays done.", path: `${path}/cancel`, done: again,
  });
}

function transcript(context, id, { parameters }) {
  const after = Number(parameters.after ?? 0);
  const parts = reading({
    context,
    everyMs: EVERY_MS,
    read: () => read(`/api/sessions/${encodeURIComponent(id)}`, { after }),
    draw: ({ session, transcript: entries, next }) => [
      facts([["entries", (session.entries ?? 0).toLocaleString()], ["not kept any more", session.dropped && count(session.dropped, "entry", "entries")]]),
      entries.length ? entries.map(entryNode) : el("p", {}, "Nothing was said here."),
      el("p", {},
        after > 0 && el("a", { href: addressOf("jobs", ["transcript", id]), class: "more" }, "First page"),
        next !== null && el("a", { href: addressOf("jobs", ["transcript", id], { after: next }), class: "more" }, "Next page")),
    ],
  });
  return { ...parts, node: el("section", {}, el("h1", {}, "Transcript"), el("p", { class: "muted" }, id), back(), parts.node) };
}

function entryNode(entry) {
  return el("article", { class: `said ${entry.role}` },
    el("p", { class: "muted" }, `${SAID[entry.role]} · ${entry.type}${entry.status === "complete" ? "" : ` · ${entry.status}`} `,
      entry.startedAt ? time(entry.startedAt) : null),
    el("pre", {}, entry.content), entry.details ? el("details", {}, el("summary", {}, "Details"), el("pre", {}, entry.details)) : null);
}

function back() {
  return el("p", {}, el("a", { href: addressOf("jobs") }, "All jobs and transcripts"));
}

function pretty(value) {
  return el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));
}
