"""Be a command client: `lifebus serve --event frame.opening --protocol jsonl -- python docs/examples/command.py`."""

import json
import os
import sys

for line in sys.stdin:
    event_id = json.loads(line)["request"]["event_id"]
    body = f"Be brief in {event_id}."
    payload: dict[str, object] = {"schema_version": "lifeloop.v0.2", "payload_id": f"pay_{event_id}"}
    payload |= {"payload_kind": "note", "format": "text", "content_encoding": "utf8"}
    payload |= {"client_id": os.environ["LIFEBUS_CLIENT_ID"]}
    payload |= {"body": body, "byte_size": len(body.encode())}
    payload["acceptable_placements"] = [{"placement": "pre_prompt_frame", "requirement": "preferred"}]
    answer = {"schema_version": "lifeloop.v0.2", "status": "delivered", "client_payloads": [payload]}
    print(json.dumps(answer), flush=True)
