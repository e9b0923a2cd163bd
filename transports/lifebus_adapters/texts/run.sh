#!/bin/sh
# lifebus: runs @PROGRAM@ and tells the broker when it was started and when it ended.
# Made by `lifebus hooks install`, removed by `lifebus hooks remove`.  Without lifebus it is @PROGRAM@ and nothing else.
launcher=@LAUNCHER@
run=@RUN@
python=@PYTHON@
[ -x "$python" ] || python=$(command -v python3) || python=
[ -x "$launcher" ] && [ -r "$run" ] && [ -n "$python" ] && exec "$python" -I -S "$run" "$launcher" @ADAPTER@ @PROGRAM@ "$@"
exec @PROGRAM@ "$@"
