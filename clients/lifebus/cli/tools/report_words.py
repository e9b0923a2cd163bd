"""How a report says counts and spans of time.  Pure."""


def count_text(count: int) -> str:
    """Return a number in at most five characters."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count // (1_000 if unit == 'k' else size)}{unit}"
    return str(count)


def span_text(ms: int) -> str:
    """Return a span of time in at most six characters: 48s, 3m, 2h05m, 12d."""
    seconds = ms // 1000
    if seconds < 60:  # noqa: PLR2004  a minute
        return f"{seconds}s"
    if seconds < 3_600:  # noqa: PLR2004  an hour
        return f"{seconds // 60}m"
    if seconds < 360_000:  # noqa: PLR2004  a hundred hours
        return f"{seconds // 3_600}h{seconds % 3_600 // 60:02}m"
    return f"{seconds // 86_400}d"
