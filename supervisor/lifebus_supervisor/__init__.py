"""Ticks, settings, and the daemon that composes broker and sockets."""
