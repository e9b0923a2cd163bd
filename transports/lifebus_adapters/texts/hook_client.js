// lifebus: tells the lifebus broker of lifecycle moments.  Made by `lifebus hooks install`, removed by
// `lifebus hooks remove`.  It never throws, prints nothing, and keeps the harness waiting 300 ms at most.
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { lstatSync } from "node:fs"
import { connect } from "node:net"
import { homedir } from "node:os"
import { dirname } from "node:path"

const ADAPTER = @ADAPTER@
const LAUNCHER = @LAUNCHER@
const HOOKS = new Set(@HOOKS@)
const CANARY = "lifebus.canary"
const LIMIT_MS = 280
const MAX_ANSWER_BYTES = 1048576

let line = Promise.resolve()
const waiting = new Map()
process.once("exit", () => waiting.forEach(([hook, stdin], callId) => spool(hook, callId, stdin)))

// Carry one call to the broker and return what it answered, as an object; null where it had nothing to say.
function tell(hook, payload, cwd) {
  if (!HOOKS.has(hook) && hook !== CANARY) return Promise.resolve(null)
  const until = Date.now() + LIMIT_MS
  const callId = `plugin-${Date.now().toString(16)}-${randomBytes(8).toString("hex")}`
  const stdin = Buffer.from(JSON.stringify(payload))
  waiting.set(callId, [hook, stdin])
  const asked = line.then(() => ask(record(hook, callId, cwd, stdin), until - Date.now())).catch(() => {
    spool(hook, callId, stdin)
    return null
  })
  const answer = asked.finally(() => waiting.delete(callId))
  line = answer // one after the other, so that they arrive in order
  return answer
}

// `lifebus hooks test` comes this way.
async function tellCanary(canary, cwd) {
  await tell(CANARY, { hook: CANARY, cwd, canary }, cwd)
}

// Nothing that goes wrong here is the harness's business.
function quietly(work) {
  return async (...given) => {
    try {
      return await work(...given)
    } catch {
      return undefined
    }
  }
}

function record(hook, callId, cwd, stdin) {
  const header = { v: 1, call_id: callId, adapter: ADAPTER, hook, pid: process.pid, cwd: cwd || "", env: {} }
  return Buffer.concat([Buffer.from(JSON.stringify({ ...header, size: stdin.length }) + "\n"), stdin])
}

function doorPath() {
  const own = process.env.LIFEBUS_RUNTIME_DIR
  const base = process.env.XDG_RUNTIME_DIR || ""
  const home = (process.env.HOME || "").startsWith("/") ? process.env.HOME : homedir()
  return `${own || (base.startsWith("/") ? `${base}/lifebus` : `${home}/.local/state/lifebus/run`)}/hook.sock`
}

// Nobody else can have put a socket into a directory that is ours alone; a stranger's words must not reach the model.
function isOurs(path) {
  const [door, folder, us] = [lstatSync(path), lstatSync(dirname(path)), process.getuid()]
  return door.isSocket() && door.uid === us && folder.isDirectory() && folder.uid === us && (folder.mode & 0o077) === 0
}

function ask(call, ms) {
  return new Promise((resolve, reject) => {
    const path = doorPath()
    if (!isOurs(path)) return reject(new Error("not our door"))
    const chunks = []
    let size = 0
    const broker = connect(path)
    const timer = setTimeout(() => broker.destroy(new Error("late")), Math.max(ms, 1))
    broker.on("error", reject)
    broker.on("data", (chunk) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > MAX_ANSWER_BYTES) broker.destroy(new Error("too long"))
    })
    broker.on("close", () => {
      clearTimeout(timer)
      try {
        resolve(parse(Buffer.concat(chunks)))
      } catch (fault) {
        reject(fault)
      }
    })
    broker.write(call)
  })
}

// An answer is `<exit code> <stdout length>`, a newline and stdout; a plugin has no use for the exit code.
function parse(answer) {
  const end = answer.indexOf(10)
  const [, length] = /^\d{1,3} (\d{1,7})$/.exec(answer.subarray(0, Math.max(end, 0)).toString("latin1"))
  const stdout = answer.subarray(end + 1)
  if (stdout.length !== Number(length)) throw new Error("not whole")
  return stdout.length ? JSON.parse(stdout.toString("utf8")) : null
}

// Leave a call that got no whole answer to the launcher, which tries once more and spools it, under the same id.
// It takes the payload along in its environment: the harness may end before a pipe is written.
function spool(hook, callId, stdin) {
  try {
    const script = 'exec "$0" "$@" <<END\n$LIFEBUS_PLUGIN_CALL\nEND'
    const env = { ...process.env, LIFEBUS_PLUGIN_CALL: stdin.toString("utf8") }
    const given = ["-c", script, LAUNCHER, ADAPTER, hook, callId]
    const child = spawn("/bin/sh", given, { detached: true, stdio: "ignore", env })
    child.on("error", () => {})
    child.unref()
  } catch {
    // without a launcher there is nothing to be done
  }
}

