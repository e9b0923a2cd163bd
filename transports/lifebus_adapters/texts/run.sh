#!/bin/sh
# lifebus: runs @PROGRAM@ and tells the broker when it was started and when it ended.
# Made by `lifebus hooks install`, removed by `lifebus hooks remove`.  Without lifebus it is @PROGRAM@ and nothing else.
launcher=@LAUNCHER@
wrapper=@WRAPPER@
python=@PYTHON@
[ -x "$python" ] || python=$(command -v python3) || python=
[ -x "$launcher" ] && [ -r "$wrapper" ] && [ -n "$python" ] && exec "$python" -I -S "$wrapper" "$launcher" @ADAPTER@ @PROGRAM@ "$@"
exec @PROGRAM@ "$@"
