"""`lifebus app-server tee` and `run`: bytes pass between a client and its server, and an observer reads along.

Standard library only, and little of that: an editor waits for this program to start.
"""
