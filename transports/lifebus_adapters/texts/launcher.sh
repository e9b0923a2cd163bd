#!/bin/sh
# lifebus: carries hook calls of coding harnesses to the broker.  Made by `lifebus hooks install`, removed by
# `lifebus hooks remove`.  Whatever is missing, it exits 0: harnesses read exit code 2 as a refusal.
# A harness may end the hook before Python has started, and the call would be lost; hook.py is done within 300 ms.
trap '' HUP INT TERM
hook=@HOOK@
python=@PYTHON@
[ -r "$hook" ] || exit 0
[ -x "$python" ] || python=$(command -v python3) || exit 0
exec "$python" -I -S "$hook" "$@"
