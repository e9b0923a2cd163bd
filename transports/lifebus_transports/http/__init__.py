"""The gateway: routes over HTTP, streams over WebSocket and server-sent events; an adaptor of the API.

Nothing here is imported while the gateway is off, but for its settings.
"""
