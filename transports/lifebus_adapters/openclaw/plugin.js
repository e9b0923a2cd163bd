// What OpenClaw tells, reduced to what lifebus reads: no prompts, answers or tool data.
const EVENT = [
  "runId", "sessionId", "sessionKey", "provider", "model", "stopHookActive", "success", "durationMs", "reason",
  "contextTokenBudget", "contextWindowSource", "usage", "messageCount", "compactedCount", "tokenCount",
]
const CONTEXT = [
  "runId", "agentId", "sessionKey", "sessionId", "modelProviderId", "modelId", "trigger", "contextTokenBudget",
]

function only(value, keys) {
  return Object.fromEntries(keys.filter((key) => value?.[key] !== undefined).map((key) => [key, value[key]]))
}

// The last answer's counts are those of its own request; the event's add up the whole run.
function counts(event) {
  const usage = event?.lastAssistant?.usage
  return usage ? { lastAssistant: { usage: only(usage, ["input", "output", "cacheRead", "cacheWrite"]) } } : {}
}

async function pass(hook, event, ctx) {
  const cwd = ctx?.workspaceDir ?? event?.cwd ?? process.cwd()
  if (event?.[CANARY]) return tellCanary(event[CANARY], cwd)
  const reduced = { ...only(event, EVENT), ...counts(event) }
  const told = await tell(hook, { hook, cwd, event: reduced, ctx: only(ctx, CONTEXT) }, cwd)
  if (hook === "before_prompt_build" && told?.prependContext) return { prependContext: told.prependContext }
}

export default {
  id: "lifebus",
  name: "lifebus",
  description: "Tells the lifebus broker of sessions, runs and compactions.",
  register(api) {
    for (const hook of HOOKS) api.on(hook, quietly((event, ctx) => pass(hook, event, ctx)))
  },
}
