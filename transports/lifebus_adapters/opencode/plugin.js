// What OpenCode tells, reduced to what the adapter reads: no prompts, answers or tool data.
const reductions = {
  "session.created": ({ sessionID, info }) => ({ sessionID, info: { id: info?.id, version: info?.version } }),
  "session.idle": ({ sessionID }) => ({ sessionID }),
  "session.compacted": ({ sessionID }) => ({ sessionID }),
  "session.error": ({ sessionID, error }) => sessionID && { sessionID, error: { name: error?.name } },
  "session.deleted": ({ sessionID, info }) => ({ sessionID: sessionID ?? info?.id }),
  "message.updated": ({ sessionID, info }) => info?.role === "assistant" && info.time?.completed && { sessionID, info: message(info) },
}

function message({ id, sessionID, role, mode, summary, finish, error, modelID, providerID, tokens, time }) {
  const fault = error ? { name: error.name } : undefined
  return { id, sessionID, role, mode, summary, finish, error: fault, modelID, providerID, tokens, time }
}

export const Lifebus = async ({ directory }) => ({
  event: async ({ event }) => {
    try {
      const properties = reductions[event.type]?.(event.properties ?? {})
      if (!properties) return
      const input = { event: { id: event.id, type: event.type, properties } }
      await tell(event.type, { hook: "event", cwd: directory, input, output: null }, directory)
    } catch {}
  },
  "chat.message": async ({ sessionID }, output) => {
    try {
      const { id, role, time, agent, model } = output.message
      const told = { message: { id, role, sessionID, time, agent, model } }
      const answer = await tell("chat.message", { hook: "chat.message", cwd: directory, input: { sessionID }, output: told }, directory)
      for (const [index, { text }] of (answer?.parts ?? []).entries()) {
        const part = `prt_zzzz${Date.now().toString(16)}${index}`
        output.parts.push({ id: part, sessionID, messageID: id, type: "text", text, synthetic: true })
      }
    } catch {}
  },
  "experimental.session.compacting": async ({ sessionID }) => {
    try {
      const hook = "experimental.session.compacting"
      await tell(hook, { hook, cwd: directory, input: { sessionID }, output: null }, directory)
    } catch {}
  },
  dispose: async () => {
    try {
      await tell("dispose", { hook: "dispose", cwd: directory, input: null, output: null }, directory)
    } catch {}
  },
})
