#!/bin/sh
# A phase: is the project one that can be worked on?  78 is EX_CONFIG.
[ -f README.md ] || { echo "there is no README.md" >&2; exit 78; }
