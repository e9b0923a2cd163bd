"""`lifebus renewal`: the enabled profiles, what waits under them, and how the last renewals ended."""

import time

from cyclopts import App

from lifebus.cli.admin.continuation import describe, put_records
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put, put_json, put_table, say

app = App(name="renewal")


@app.default
@app.command
def status(*, json: bool = False) -> ExitCode:
    """Show profiles and what is kept; never a token.  Works without a broker.

    Args:
        json: Answer in JSON.
    """
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415
    from lifebus_supervisor.renewal.store import open_store  # noqa: PLC0415

    settings = load()[0]
    records, strange = open_store(settings.state_dir).records()
    now = int(time.time())
    waiting = [one for one in records if one.ended_at is None]
    ended = sorted((one for one in records if one.ended_at is not None), key=lambda one: -(one.ended_at or 0))
    if json:
        put_json(
            {
                "profiles": [
                    {"profile": one.profile, "adapter_id": one.adapter, "client_id": one.client_id}
                    for one in settings.renewals
                ],
                "waiting": [describe(one, now) for one in waiting],
                "ended": [describe(one, now) for one in ended],
                "strange_files": strange,
            }
        )
        return ExitCode.OK
    if settings.renewals:
        titles = ("profile", "adapter", "client", "kept for", "at most")
        put_table(
            titles,
            [
                (one.profile, one.adapter, one.client_id, f"{one.ttl_s} s", f"{one.max_bytes} bytes")
                for one in settings.renewals
            ],
        )
    else:
        say("no renewal profile is configured")
    for title, some in (("waiting", waiting), ("ended", ended)):
        if some:
            put("")
            put(f"{title}:")
            put_records(some, now)
    return ExitCode.OK
