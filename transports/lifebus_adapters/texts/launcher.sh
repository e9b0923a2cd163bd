#!/bin/sh
# lifebus: carries hook calls of coding harnesses to the broker.  Made by `lifebus hooks install`, removed by
# `lifebus hooks remove`.  Whatever is missing, it exits 0: harnesses read exit code 2 as a refusal.
# A harness may end the hook before Python has started, and the call would be lost; hook.py is done within 300 ms.
trap '' HUP INT TERM
hook=@HOOK@
python=@PYTHON@
[ -r "$hook" ] || exit 0
[ -x "$python" ] || python=$(command -v python3) || exit 0
# Its bytecode is kept beside it: compiling the file would be a quarter of the hook's time.
exec "$python" -I -S -c 'import sys
path = sys.argv.pop(1)
try:
    from _frozen_importlib_external import SourceFileLoader
    code = SourceFileLoader("hook", path).get_code("hook")
except Exception:
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
exec(code)' "$hook" "$@"
