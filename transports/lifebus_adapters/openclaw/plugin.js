// What OpenClaw tells, reduced to what the adapter reads: no prompts, answers or tool data.
const FACTS = [
  "runId", "sessionId", "sessionKey", "provider", "model", "stopHookActive", "success", "durationMs", "reason",
  "contextTokenBudget", "contextWindowSource", "usage", "messageCount", "compactedCount", "tokenCount",
]
const CONTEXT = ["runId", "agentId", "sessionKey", "sessionId", "modelProviderId", "modelId", "trigger", "contextTokenBudget"]

function only(value, keys) {
  return Object.fromEntries(keys.filter((key) => value?.[key] !== undefined).map((key) => [key, value[key]]))
}

async function report(hook, event, ctx) {
  try {
    const cwd = ctx?.workspaceDir ?? event?.cwd ?? process.cwd()
    const answer = await tell(hook, { hook, cwd, event: only(event, FACTS), ctx: only(ctx, CONTEXT) }, cwd)
    if (hook === "before_prompt_build" && answer?.prependContext) return { prependContext: answer.prependContext }
  } catch {}
}

export default {
  id: "lifebus",
  name: "lifebus",
  description: "Tells the lifebus broker of sessions, runs and compactions.",
  register(api) {
    for (const hook of HOOKS) api.on(hook, (event, ctx) => report(hook, event, ctx))
  },
}
