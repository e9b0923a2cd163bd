#!/bin/sh
# A phase: leaves the design.
sed 's/^/design for: /' discovery.txt > design.md
