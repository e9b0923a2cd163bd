"""The observer: the process beside `lifebus tee` and `lifebus run` that tells the broker what passes.

It is started by the passage, has none of its streams, and the passage never waits for it.
"""
