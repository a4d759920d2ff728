"""The cost of a run by its first steps: one line, for users who wonder whether PODS pays."""

from podsrl.trl.run_state import RunState

STEPS_OF_COST = 20  # after which it is said


class CostOfSteps:
    """The seconds of a run's first steps by phase, with their rollouts and rows."""

    def __init__(self) -> None:
        self._generating = 0.0
        self._updating = 0.0
        self._began: tuple[int, int] | None = None  # rollouts and rows before what is counted
        self._rollouts = 0
        self._rows = 0

    def add_step(self, state: RunState) -> None:
        """Add the step that has just ended; the first one only warms up."""
        if self._began is None:
            self._began = (state.rollouts_generated, state.rollouts_trained)
            return
        seconds = state.clock.last_step
        self._generating += seconds["generate"] + seconds["score"]
        self._updating += seconds["update"]
        self._rollouts = state.rollouts_generated - self._began[0]
        self._rows = state.rollouts_trained - self._began[1]

    def in_words(self, n: int, m: int) -> str | None:
        """The cost of n rollouts of a prompt beside m, in words; None where nothing was measured.

        With g seconds of generating for a rollout and u of updating for a row, a step with m
        rollouts of a prompt takes g + u for each row, and one with n takes (n / m) g + u. As g is
        the mean, and not what one rollout more costs, that is an upper bound.
        """
        if self._rollouts <= 0 or self._rows <= 0:
            return None
        g = self._generating / self._rollouts
        u = self._updating / self._rows
        cost = (n / m * g + u) / (g + u)
        share = self._generating / (self._generating + self._updating)
        return (
            f"generating and scoring took {share:.0%} of the steps so far. With {n} rollouts for"
            f" {m} rows a step takes at most {cost:.1f} times as long as one of GRPO with {m}: PODS"
            " does not pay where its steps teach less than that"
        )
