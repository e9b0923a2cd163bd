"""Ask what a harness can really do before relying on it."""

import lifebus


async def main() -> None:
    level = lifebus.RequirementLevel.REQUIRED
    compactions = lifebus.CapabilityRequest(capability="event:context.compacted", level=level)
    async with lifebus.connect("my-tool") as bus:
        for harness in ("codex", "gemini"):
            result = await bus.negotiate(harness, [compactions])
            print(harness, result.outcome, "-", result.outcomes[0].reason)


lifebus.run(main())
