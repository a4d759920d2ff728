"""Times as people read them."""

#: Units with their length in seconds, and the least time in seconds that is told in them.
_UNITS = (
    ("h", 3600.0, 5400.0),
    ("min", 60.0, 180.0),
    ("s", 1.0, 1.0),
    ("ms", 1e-3, 1e-3),
)
_SMALLEST = ("us", 1e-6)


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit that fits a time, and its length in seconds."""
    for unit, length, least in _UNITS:
        if seconds >= least:
            return unit, length
    return _SMALLEST


def duration(seconds: float) -> str:
    """A time in the unit that reads best, three digits.

    >>> duration(5400.0), duration(840.0), duration(12.34), duration(0.0456), duration(0.0000123)
    ('1.5 h', '14 min', '12.3 s', '45.6 ms', '12.3 us')
    """
    unit, length = time_unit(seconds)
    return f"{seconds / length:.3g} {unit}"
