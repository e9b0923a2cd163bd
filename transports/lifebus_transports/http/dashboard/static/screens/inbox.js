// The screen "Inbox": questions that wait for a person, with their answers, and the runs of flows.

import { read } from "../access.js";
import { commandLine } from "../command.js";
import { el } from "../dom.js";
import { count } from "../format.js";
import { actHint, actionButton, badge, empty, facts, marked, onChange, reading, section, table, time } from "../parts.js";
import { addressOf } from "../screens.js";
import { fieldsOf } from "./answer_fields.js";

const EVERY_MS = 3_000;
const RUNS = 100;
const STATUS = {
  running: ["▶", "good"], waiting: ["⚑", "bad"], interrupted: ["…", "warn"], completed: ["✓", "quiet"], failed: ["✗", "bad"], aborted: ["◼", "quiet"],
};
const STEP = {
  pending: ["○", "quiet"], running: ["▶", "good"], backing_off: ["↻", "warn"], asking: ["⚑", "bad"],
  done: ["✓", "quiet"], skipped: ["→", "quiet"], failed: ["✗", "bad"], aborted: ["◼", "quiet"],
};
const ACTIONS = {
  proceed: ["Proceed", "Go on as if the step had been done."],
  retry: ["Retry", "Do the step again, with a fresh series of tries."],
  abort: ["Abort", "End the run."],
  modify: ["Modify", "Do the step again with other values. Those that you leave empty stay as they are."],
};

/** Return the command that shows the same. */
export function command(place) {
  return place.parts[0] ? commandLine("flow", "show", place.parts[0]) : commandLine("inbox", "list");
}

/** Open the screen; `#/inbox/RUN` shows one run. */
export function open(context, place) {
  const found = place.parts[0] ? oneRun(context, place.parts[0]) : overview(context);
  const stop = onChange(context.store, ({ rows, sessions }) => rows || sessions, found.again);
  return {
    node: found.node,
    close() {
      stop();
      found.close();
    },
  };
}

function overview(context) {
  const parts = reading({
    context,
    everyMs: EVERY_MS,
    read: () => Promise.all([read("/api/questions"), read("/api/flows", { limit: RUNS })]),
    draw: ([questions, runs]) => [
      section(`Waiting for an answer (${questions.data.length}${questions.next ? "+" : ""})`,
        actHint(context), waitingForLink(context),
        questions.data.length ? questions.data.map((one) => card(context, one, parts.again)) : empty("No question waits for an answer.")),
      section("Flows", runTable(runs.data), runs.complete ? null : el("p", { class: "muted" }, `the newest ${RUNS}`)),
    ],
  });
  return { ...parts, node: el("section", {}, el("h1", {}, "Inbox"), parts.node) };
}

/** Return a line about sessions that wait in their harness, where nothing but a person at the terminal answers. */
function waitingForLink({ store }) {
  const waits = [...store.sessions.values()].flatMap((one) => one.waiting ?? [])
    .filter((one) => one.waitingFor !== "idle" && !one.kind?.startsWith("flow."));
  return waits.length
    ? el("p", {}, el("a", { href: addressOf("now") }, count(waits.length, "session waits", "sessions wait")), " in the harness itself.")
    : null;
}

function card(context, question, again) {
  const { questionId, runId } = question;
  return el("article", { class: "question", "aria-label": question.title, "data-question": questionId },
    el("h3", {}, marked(question.title)), el("p", {}, marked(question.reason)),
    facts([
      ["kind", question.kind], ["asked by", question.clientId], ["asked", time(question.askedAtMs)],
      ["run", runId && el("a", { href: addressOf("inbox", [runId]) }, runId)], ["step", question.stepId],
      ...Object.entries(question.context).map(([name, value]) => [name, plain(value)]),
    ]),
    question.suggestedActions.length ? el("ul", {}, ...question.suggestedActions.map((one) => el("li", {}, one))) : null,
    el("div", { class: "toolbar" }, ...question.actions.map((action) => answerButton(context, question, action, again))));
}

/** Return a value of a question's context as words. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join("; ");
  return value && typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name} ${plain(one)}`).join(", ") : String(value);
}

function answerButton(context, question, action, again) {
  const [label, meaning] = ACTIONS[action];
  const form = fieldsOf(action === "modify" ? question.modifiable : []);
  return actionButton({
    context, label, id: `answer-${question.questionId}-${action}`, danger: action === "abort",
    title: `${label}: ${question.title}`,
    question: el("div", {}, el("p", {}, meaning), form.node),
    path: `/api/questions/${encodeURIComponent(question.questionId)}/answer`,
    body: () => ({ action, responder: "dashboard", ...form.values() }),
    done: again,
  });
}

function runTable(runs) {
  return table({
    label: "Runs of flows", rows: runs, none: "No flow was run yet.",
    columns: [
      ["Run", (run) => el("a", { href: addressOf("inbox", [run.runId]) }, run.runId)],
      ["Flow", (run) => run.name],
      ["State", (run) => badge(STATUS[run.status][0], run.status, STATUS[run.status][1])],
      ["Steps", (run) => `${run.stepsOver} of ${run.steps}`],
      ["Now", (run) => run.current.map(([step, status]) => `${step} ${status.replace("_", " ")}`).join(", ")],
      ["Began", (run) => time(run.startedAtMs)],
    ],
  });
}

function oneRun(context, runId) {
  const parts = reading({
    context,
    everyMs: EVERY_MS,
    read: async () => (await read(`/api/flows/${encodeURIComponent(runId)}`)).run,
    draw: (run) => [
      facts([
        ["flow", run.name], ["state", badge(STATUS[run.status][0], run.status, STATUS[run.status][1])], ["why", run.reason],
        ["runs in", run.owner], ["began", time(run.startedAtMs)], ["ended", run.endedAtMs && time(run.endedAtMs)],
        ["tokens", run.tokens && run.tokens.toLocaleString()], ["interrupted", run.interruptions && count(run.interruptions, "time")],
      ]),
      run.endedAtMs ? null : abortButton(context, run, parts.again), actHint(context),
      section("Steps", stepTable(run.steps)),
    ],
  });
  const back = el("p", {}, el("a", { href: addressOf("inbox") }, "All flows and questions"));
  return { ...parts, node: el("section", {}, el("h1", {}, `Run ${runId}`), back, parts.node) };
}

function abortButton(context, run, again) {
  return actionButton({
    context, id: "abort-run", label: "End this run", danger: true, title: `End the run ${run.runId}`,
    question: "What runs of it is ended, and no further step begins.",
    path: `/api/flows/${encodeURIComponent(run.runId)}/abort`, body: { responder: "dashboard" }, done: again,
  });
}

function stepTable(steps) {
  return table({
    label: "Steps of the run", rows: steps,
    columns: [
      ["Step", (step) => step.stepId],
      ["State", (step) => badge(STEP[step.status][0], step.status.replace("_", " "), STEP[step.status][1])],
      ["Tries", (step) => String(step.tries)],
      ["Last try", (step) => step.startedAtMs && time(step.endedAtMs ?? step.startedAtMs)],
      ["Session", (step) => step.session?.[1] ?? ""],
      ["What it wrote at its end", (step) => step.tail && el("pre", {}, step.tail)],
    ],
  });
}
