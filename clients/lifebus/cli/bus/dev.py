"""`lifebus dev`: what those need who build on lifebus."""

from cyclopts import App

app = App(name="dev")
app.command(
    "lifebus.cli.bus.serve:invoke",
    name="invoke",
    help="Ask a command about one dispatch: no broker, nothing is kept.",
)
app.command(
    "lifebus.cli.bus.proxy:stdio",
    name="stdio",
    help="Speak the request protocol as JSON lines on stdin and stdout.",
)
app.command("lifebus.cli.read.status:tick", name="tick", help="Examine telemetry, processes and silence now.")
