"""Run extensions for the broker that started this process."""

import asyncio
import contextlib
import os
import sys

from lifebus._extension_host.program import limit_memory, serve
from lifebus_transports.messages.extensions.host import DESCRIPTOR_OPTION, MEMORY_OPTION


def main() -> None:
    """Serve until the broker closes the channel, then end at once: what handlers left running ends with this."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    sys.dont_write_bytecode = True
    limit_memory(int(options[MEMORY_OPTION]))
    with contextlib.suppress(ConnectionError):
        asyncio.run(serve(int(options[DESCRIPTOR_OPTION])))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of extensions would keep the interpreter alive.
    os._exit(0)


if __name__ == "__main__":
    main()
