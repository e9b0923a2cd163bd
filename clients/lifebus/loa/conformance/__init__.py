"""The checklist of the Loa runtime contract as a suite against any runtime (docs/runtime-conformance.md).

The suite never believes a runtime: phases are scripts of the suite, which say by a pipe that they have started and end
with the code that the suite gives them.
"""
