"""Record a session with a frame in it, from beginning to end; `emit` returns when each is on the disk."""

import lifebus


async def main() -> None:
    frame = lifebus.FrameContext(frame_id="f1", frame_class=lifebus.FrameClass.TOP_LEVEL)
    async with lifebus.connect("my-tool") as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        opened = await bus.emit(lifebus.make_request("frame.opened", "codex", session="s1", frame=frame))
        print(opened.receipts[0].sequence, opened.receipts[0].event)
        await bus.emit(lifebus.make_request("frame.ended", "codex", session="s1", frame=frame))
        await bus.emit(lifebus.make_request("session.ended", "codex", session="s1"))


lifebus.run(main())
