"""Read every receipt there is, then say where to go on; without `until_head` it would wait for more."""

import lifebus


async def main() -> None:
    async with lifebus.connect("my-tool") as bus:
        receipts = bus.receipts(since="start", until_head=True)
        async for receipt in receipts:
            print(receipt.sequence, receipt.event, receipt.status)
        print("go on from", receipts.cursor)


lifebus.run(main())
