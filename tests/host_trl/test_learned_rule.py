"""A rule that is learned while training: its arguments are the state, which a callback owns.

The rule stays a pure function. transformers saves the callback's state in its checkpoints.
"""

import numpy as np
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from support.trl_runs import equal, logged, straight_and_resumed, table_of, weights


def tilted(rewards_P_N, m, seed, highest=2):
    """Keeps so many of the highest rewards, and the lowest for the rest."""
    order_P_N = rewards_P_N.argsort(-1, kind="stable")
    return np.roll(order_P_N, highest, axis=-1)[:, :m]


class Learner(TrainerCallback, ExportableState):
    """Keeps one more of the highest rewards after each gain, and one less after each loss."""

    def __init__(self, highest=2, seen=()):
        self.highest = highest
        self.seen = list(seen)  # the mean reward of each step

    def on_step_begin(self, args, state, control, **kwargs):
        args.downsampling_rule = f"{__file__}:tilted(highest={self.highest})"

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "reward" not in logs:
            return
        gained = not self.seen or logs["reward"] > self.seen[-1]
        self.highest = min(max(self.highest + (1 if gained else -1), 1), 3)
        self.seen.append(logs["reward"])

    def state(self):
        return {"args": vars(self), "attributes": {}}


def highest_kept(trainer, step):
    """How many of its prompt's highest rewards a step has kept, by what stands in the log."""
    table = table_of(trainer, step)
    rows = [group.sort_values(["reward", "rollout"]) for _, group in table.groupby("group")]
    (number,) = {int(group["kept"].to_numpy()[4:].sum()) for group in rows}
    return number


def test_the_learned_rule_follows_each_step_and_goes_on_where_a_run_is_resumed(make_trainer):
    straight, second = straight_and_resumed(
        lambda n, **fields: make_trainer(n, callbacks=[Learner()], **fields),
        8,
        restore_callback_states_from_checkpoint=True,
    )
    expected = Learner()
    found = []
    for step, entry in enumerate(logged(straight), start=1):
        assert highest_kept(straight, step) == expected.highest
        found.append(expected.highest)
        expected.on_log(None, None, None, logs=entry)
    assert len(set(found)) > 1  # it has learned something

    assert equal(weights(straight), weights(second))
    (resumed,) = [c for c in second.callback_handler.callbacks if isinstance(c, Learner)]
    assert vars(resumed) == vars(expected)
