"""Deliver a text into every new frame of Codex, as a callback client.  Ctrl-C ends it."""

import lifebus


async def answer(dispatch: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
    payload = lifebus.make_payload("notes", f"Be brief in {dispatch.request.event_id}.")
    return lifebus.CallbackResponse.ok(lifebus.ReceiptStatus.DELIVERED, payload)


async def main() -> None:
    async with lifebus.connect("notes") as bus:
        await bus.serve(["frame.opening"], answer, on_ready=lambda: print("ready", flush=True))


lifebus.run(main())
