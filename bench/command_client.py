"""The client that the commands part measures: answers each dispatch at once, in lines of JSON or in MessagePack.

Run as ``python command_client.py jsonl|msgpack``; with one line and the end of stdin it is a oneshot client, too.
"""

import os
import sys

ANSWER = {"schema_version": "lifeloop.v0.2", "status": "observed"}


def answer_lines() -> None:
    """Answer each line of stdin."""
    import json  # noqa: PLC0415  only what the protocol needs

    for line in sys.stdin:
        json.loads(line)
        sys.stdout.write(json.dumps(ANSWER) + "\n")
        sys.stdout.flush()


def answer_messages() -> None:
    """Answer each map on stdin."""
    import msgpack  # noqa: PLC0415  only what the protocol needs

    unpacker = msgpack.Unpacker()
    # Unbuffered: a buffered read would wait for more than one message.
    while data := os.read(0, 65_536):
        unpacker.feed(data)
        for _ in unpacker:
            sys.stdout.buffer.write(msgpack.packb(ANSWER))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    answer_messages() if sys.argv[1] == "msgpack" else answer_lines()
