// What OpenCode tells, reduced to what lifebus reads: no prompts, answers or tool data.
const reductions = {
  "session.created": ({ sessionID, info }) => ({ sessionID, info: { id: info?.id, version: info?.version } }),
  "session.idle": ({ sessionID }) => ({ sessionID }),
  "session.compacted": ({ sessionID }) => ({ sessionID }),
  "session.error": ({ sessionID, error }) => sessionID && { sessionID, error: { name: error?.name } },
  "session.deleted": ({ sessionID, info }) => ({ sessionID: sessionID ?? info?.id }),
  "permission.asked": ({ sessionID, id, permission }) => ({ sessionID, id, permission }),
  "permission.replied": ({ sessionID, requestID, reply }) => ({ sessionID, requestID, reply }),
  "question.asked": ({ sessionID, id }) => ({ sessionID, id }),
  "question.replied": ({ sessionID, requestID }) => ({ sessionID, requestID }),
  "question.rejected": ({ sessionID, requestID }) => ({ sessionID, requestID }),
  "message.updated": ({ sessionID, info }) => isAnswer(info) && { sessionID: sessionID ?? info.sessionID, info: answer(info) },
}

// An answer that is finished: until then its counts are not whole.
function isAnswer(info) {
  return info?.role === "assistant" && info.time?.completed
}

function answer({ id, sessionID, role, mode, summary, finish, error, modelID, providerID, tokens, time }) {
  const fault = error ? { name: error.name } : undefined
  const limit = { context: windows.get(`${providerID}/${modelID}`) }
  return { id, sessionID, role, mode, summary, finish, error: fault, modelID, providerID, tokens, time, limit }
}

// How large the models' windows are: a request names its model's, the answer does not.
const windows = new Map()

// The sessions that this process has open: OpenCode does not say whose end `dispose` is.
const sessions = new Set()
const MOST_SESSIONS = 64

function open(sessionID) {
  sessions.delete(sessionID)
  sessions.add(sessionID)
  if (sessions.size > MOST_SESSIONS) sessions.delete(sessions.values().next().value)
}

const compacting = "experimental.session.compacting"

export const Lifebus = async (setting) => {
  const cwd = setting?.directory
  const pass = (hook, input, output = null, event = hook) => tell(event, { hook, cwd, input, output }, cwd)
  return {
    event: quietly(async ({ event }) => {
      if (event.type === CANARY) return tellCanary(event.properties.canary, cwd)
      const properties = reductions[event.type]?.(event.properties ?? {})
      if (event.type === "session.created") open(properties.sessionID ?? properties.info.id)
      if (event.type === "session.deleted") sessions.delete(properties.sessionID)
      if (properties) await pass("event", { event: { id: event.id, type: event.type, properties } }, null, event.type)
    }),
    "chat.message": quietly(async ({ sessionID }, output) => {
      const { id, role, time, agent, model } = output.message
      open(sessionID)
      const told = await pass("chat.message", { sessionID }, { message: { id, role, sessionID, time, agent, model } })
      for (const [index, { text }] of (told?.parts ?? []).entries()) {
        const part = `prt_zzzz${Date.now().toString(16)}${index}` // OpenCode sorts parts by id: ours come last
        output.parts.push({ id: part, sessionID, messageID: id, type: "text", text, synthetic: true })
      }
    }),
    "chat.params": quietly(async ({ model }) => {
      windows.set(`${model.providerID}/${model.id}`, model.limit?.context)
    }),
    [compacting]: quietly(async ({ sessionID }) => void (await pass(compacting, { sessionID }))),
    dispose: quietly(async () => {
      const ended = [...sessions].filter(Boolean).map((sessionID) => ({ sessionID }))
      sessions.clear()
      // All at once: OpenCode may end before the first is answered, and the rest is spooled then.
      await Promise.all((ended.length ? ended : [null]).map((input) => pass("dispose", input)))
    }),
  }
}
