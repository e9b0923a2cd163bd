"""Makes an observer one of a quick machine: it has the processor like everybody, and the end takes as long as it may.

On the path of a proxy (`support.clients.proxy_box`) Python imports this by its name, before the program itself.
"""

import os
import sys

if "lifebus.observer" in sys.orig_argv:
    from lifebus.observer import reader, steering_orders

    os.nice = lambda _: 0
    # As long as a test waits; the broker takes the end as soon as it can.
    reader._SENDING_S = reader.OUTLIVES_S = 60.0  # type: ignore[misc]
    # How long a turn of a worker runs without a broker, where a test says so.
    steering_orders.OWNER_S = float(os.environ.get("TEST_OWNER_S", steering_orders.OWNER_S))  # type: ignore[misc]
