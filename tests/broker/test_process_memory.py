"""What is freed goes back to the system, however large the pieces were that were freed before."""

import ctypes
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, sys
from lifebus_broker.process_memory import keep_little_memory

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd rest".split()]
    _fields_ += [(f"more{number}", ctypes.c_size_t) for number in range(8)]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Info
if sys.argv[1] == "little":
    keep_little_memory()
for _ in range(2):  # by itself the C library takes the second piece from what it keeps from now on
    piece = bytes(16 * 1_048_576)
    mapped = mallinfo().hblkhd
    del piece
print(mapped >= 16 * 1_048_576)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="this C library does not say what it keeps")
@pytest.mark.parametrize(("kept", "is_apart"), [("little", "True"), ("much", "False")])
def test_a_large_piece_is_apart_from_what_the_c_library_keeps(kept: str, is_apart: str) -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT, kept], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == is_apart
