// lifebus: plays the harness to an installed plugin, and gives it a canary.
// node --input-type=module -e THIS PLUGIN ADAPTER CANARY
import { readFileSync } from "node:fs"

const [path, adapter, canary] = process.argv.slice(1)
const source = Buffer.from(readFileSync(path)).toString("base64")
const plugin = await import(`data:text/javascript;base64,${source}`)
if (adapter === "opencode") {
  const hooks = await plugin.Lifebus({ directory: process.cwd() })
  await hooks.event({ event: { type: "lifebus.canary", properties: { canary } } })
} else {
  let call = async () => {}
  plugin.default.register({ on: (_, handler) => (call = handler) })
  await call({ "lifebus.canary": canary }, {})
}
