"""The same from a script without asyncio."""

from lifebus import blocking, make_request

with blocking.connect("my-script") as bus:
    bus.emit(make_request("session.started", "claude", session="s2"))
    for receipt in bus.receipts(since="start", until_head=True):
        print(receipt)
