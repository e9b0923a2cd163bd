"""The same from a script without asyncio."""

from lifebus import blocking, make_request

with blocking.connect("my-script") as bus:
    for event in ("session.started", "session.ended"):
        bus.emit(make_request(event, "claude", session="s2"))
    for receipt in bus.receipts(since="start", until_head=True):
        print(receipt)
