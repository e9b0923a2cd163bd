"""A broker that is killed at one point of a delivery: `DIE` says `before` it is sent, or `after` it has arrived."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lifebus_supervisor.runtime.inbox.channels.webhook import WebhookChannel
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage
from support.broker_process import main

ONCE = Path(os.environ["LIFEBUS_STATE_DIR"]) / "died"
deliver = WebhookChannel.deliver


async def die(self: WebhookChannel, message: QuestionMessage) -> None:
    """Deliver as always, but for the first time, which nobody survives."""
    point = "" if ONCE.exists() else os.environ.get("DIE", "")
    if point:
        ONCE.touch()
    if point == "after":
        await deliver(self, message)
    if point:
        os.kill(os.getpid(), signal.SIGKILL)
    await deliver(self, message)


WebhookChannel.deliver = die  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
