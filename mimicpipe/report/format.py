"""Numbers in words, as the live view and the summary show them."""

from pathlib import Path


def duration(seconds: float) -> str:
    """Seconds as 0:42, 3:05 or 1:02:03; "-" where there is no end in sight."""
    if not 0 <= seconds < 360_000_000:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def elapsed(seconds: float) -> str:
    """As `duration`, with tenths below a minute, and as many milliseconds as there are below a tenth: 4.2 s, 35 ms."""
    if 0.0 < seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)


def some(number: int, thing: str) -> str:
    """How many of a thing: "1 task", "1,200 tasks"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def count(number: float) -> str:
    """A number without needless digits: 1,234,567 or 12.3."""
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:,.1f}"


def percent(share: float) -> str:
    """0.981 as 98.1 %."""
    return f"{100 * share:.1f} %"


def megabytes(number: float) -> str:
    """Bytes as MB."""
    return f"{count(number / 1e6)} MB"


def near(path: Path) -> str:
    """A path as short as it can be typed here."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def interval(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    z, share = 1.959964, successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * (share * (1 - share) / trials + z * z / (4 * trials * trials)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
