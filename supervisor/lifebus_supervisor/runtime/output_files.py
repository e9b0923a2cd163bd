"""Where the output of tries is kept: one file for each stream of a try, below the state directory.  Pure."""

from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

FOLDER: Final = "runs"
"""Where the output of steps is in the state directory."""

_ENDINGS: Final = {"stdout": ".out", "stderr": ".err"}


def output_of_try(state_dir: Path, run_id: str, step_id: str, number: int) -> Path:
    """Return the path of a try's output without the ending of a stream; no name leads out of the directory."""
    # Letters of a name that are unusual become a digest: two steps never share a file.
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in step_id)[:64]
    if plain != step_id:
        plain += f"~{sha256(step_id.encode()).hexdigest()[:12]}"
    return state_dir / FOLDER / run_id / f"{plain}.{number}"


def output_of_compaction(state_dir: Path, run_id: str, step_id: str, number: int) -> Path:
    """Return the path of what a harness writes that compacts the session of a step whose newest try has that number."""
    # No try has this name: theirs end with their number.
    output = output_of_try(state_dir, run_id, step_id, number)
    return output.with_name(f"{output.name}.compaction")


def file_of(output: Path, stream: Literal["stdout", "stderr"]) -> Path:
    """Return the file of one stream."""
    return output.with_name(output.name + _ENDINGS[stream])
