"""`lifebus app-server`: an app-server run or listened to, and what it says."""

from cyclopts import App

app = App(name="app-server")
app.command("lifebus.cli.bus.proxy:run", name="run", help="Run an app-server, and record its signals.")
app.command(
    "lifebus.cli.bus.proxy:tee",
    name="tee",
    help="Copy the streams of a client and its app-server, and record the signals.",
)
app.command(
    "lifebus.cli.read.signals:signals",
    name="signals",
    help="Follow the signals of app-servers, or read those that are kept.",
)
