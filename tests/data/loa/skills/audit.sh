#!/bin/sh
# A phase: 1 where something is left to do, 2 where only a person can decide, 0 where all is well.
if grep -q "password" code.txt; then
    echo "there is a password in code.txt" >&2
    exit 2
fi
grep -q "to be done" code.txt && exit 1
exit 0
