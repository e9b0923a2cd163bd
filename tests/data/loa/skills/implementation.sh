#!/bin/sh
# A phase: leaves the code, with a password in it.
cat design.md > code.txt
echo "password = hunter2" >> code.txt
