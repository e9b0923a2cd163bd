"""Shims: processes that stand between an owner and a command, as the command's parent.

Standard library only, and little of that: a shim runs beside its owner and outlives it by the time that its command
needs to end.  `lifebus_transports.processes.shim_child` is the owner's side.
"""
