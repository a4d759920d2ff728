"""A clock for runs with a budget of time that make as many steps on every machine."""

#: Seconds from one look at the clock to the next.
_TICK = 0.02


class CountedSeconds:
    """A clock on which time passes by being looked at: a fixed time from one look to the next.

    A step of a trainer looks at its clock as often, whatever its machine, so it takes as long.
    """

    def __init__(self) -> None:
        self._looks = 0

    def process_time(self) -> float:
        """As `time.process_time`."""
        self._looks += 1
        return _TICK * self._looks
