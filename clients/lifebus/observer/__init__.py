"""The observer: the process beside `lifebus app-server tee` and `run` that reports to the broker what passes.

The proxy starts it, shares none of its streams with it, and never waits for it.
"""
