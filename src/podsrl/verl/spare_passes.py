"""Sparing the passes of kept rows without gradient in verl. Nothing here needs verl.

A zero-advantage row has no gradient, so the update is the same without it, as long as each
mini-batch keeps its rows and its divisor. Rows are left out before old log-probs: all of a method's
advantages follow from the rewards, which are there by then.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.hosts import passes_in_words
from podsrl.methods import resolve_method
from podsrl.selection import Selection

#: verl's losses whose gradient at a row is its advantage times something of that row alone. The
#: others look at a whole micro-batch (clip_cov, kl_cov, geo_mean), or have a term without advantage
#: (dro).
_LOSSES_BY_ROW = ("vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "cispo")

#: verl's engines with which it was run. Megatron may add a loss of its own, for experts.
_STRATEGIES = ("fsdp", "fsdp2")


@dataclass(frozen=True)
class Sparing:
    """Whether passes of zero-advantage rows are spared, and if not, why."""

    is_on: bool
    why_all_pass: str = ""

    @property
    def in_words(self) -> str:
        """The rows that have a pass, in words for the log."""
        return passes_in_words(self.is_on, self.why_all_pass)


@dataclass(frozen=True)
class KeptRow:
    """The values of a row that decide whether it has a pass.

    Args:
        key: verl's.
        advantage: Its advantage; 0 of a row that verl added.
        tokens: The number of its tokens, prompt included, which a pass costs.
        trained_tokens: The number of its tokens that count in the loss.
        is_padding: Whether verl added it.
    """

    key: str
    advantage: float
    tokens: int
    trained_tokens: int
    is_padding: bool = False

    @property
    def has_gradient(self) -> bool:
        """Whether the update would differ without it."""
        return self.advantage != 0 and self.trained_tokens > 0


def read_sparing(config: Mapping[str, Any], mode: str, selection: Selection) -> Sparing:
    """Whether verl's whole config asks for sparing in the section of a trainer mode, and may.

    By default passes are spared where rollouts are dropped, or where the method says so.

    Raises:
        InvalidInputError: The option is neither true nor false.
        UnsupportedError: It is true, and every row has a gradient by another setting.
    """
    options = config["trainer"]["v1"].get(mode) or {}
    where = f"trainer.v1.{mode}.skip_zero_advantage"
    asked = options.get("skip_zero_advantage")
    if not isinstance(asked, bool | None):
        raise InvalidInputError(f"{where}={asked!r}; allowed: true or false")
    if asked is False:
        return Sparing(False, "skip_zero_advantage=false")

    why_all_pass = why_all_rows_pass(config)
    if asked and why_all_pass:
        raise UnsupportedError(
            f"{where} leaves out rows without gradient, and here every row has one or counts: "
            f"{why_all_pass}. Leave out one of the two"
        )
    if why_all_pass:
        return Sparing(False, why_all_pass)
    if asked is None:
        method = resolve_method(options.get("method") or "pods")
        asked = method.spares_passes(drops=selection.num_rollouts != selection.num_kept)
    return Sparing(asked, "" if asked else "skip_zero_advantage is off where nothing is dropped")


def why_all_rows_pass(config: Mapping[str, Any]) -> str:
    """The setting of verl's by which a row without advantage still counts; "" if none does."""
    algorithm = config["algorithm"]
    actor = config["actor_rollout_ref"]["actor"]
    correction = algorithm.get("rollout_correction") or {}
    model = config["actor_rollout_ref"].get("model") or {}
    loss = (actor.get("policy_loss") or {}).get("loss_mode") or "vanilla"
    aggregation = actor.get("loss_agg_mode")
    strategy = actor.get("strategy")

    reasons = {
        f"adv_estimator={algorithm['adv_estimator']}": algorithm["adv_estimator"] != "grpo",
        "use_kl_in_reward": algorithm.get("use_kl_in_reward"),
        "use_kl_loss": actor.get("use_kl_loss"),
        f"entropy_coeff={actor.get('entropy_coeff')}": actor.get("entropy_coeff"),
        "critic.enable": (config.get("critic") or {}).get("enable"),
        "distillation.enabled": (config.get("distillation") or {}).get("enabled"),
        "model.mtp.enable_train": (model.get("mtp") or {}).get("enable_train"),
        f"loss_mode={loss}": loss not in _LOSSES_BY_ROW,
        "rollout_correction.bypass_mode": correction.get("bypass_mode"),
        "rollout_is_batch_normalize": correction.get("rollout_is_batch_normalize"),
        f"{aggregation} without loss_scale_factor": aggregation == "seq-mean-token-sum-norm"
        and not actor.get("loss_scale_factor"),
        "actor.shuffle": actor.get("shuffle"),
        f"strategy={strategy}, tried with fsdp and fsdp2 alone": strategy not in _STRATEGIES,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def divisor_of(config: Mapping[str, Any]) -> str:
    """The divisor of the loss of a mini-batch in verl: its "tokens", its "rows", or "nothing"."""
    actor = config["actor_rollout_ref"]["actor"]
    if (actor.get("policy_loss") or {}).get("loss_mode") == "sapo":  # whatever the mode says
        return "rows"
    return {"token-mean": "tokens", "token-sum": "nothing"}.get(actor["loss_agg_mode"], "rows")


def least_multiple(config: Mapping[str, Any]) -> int:
    """The number that divides the rows of each rank in every mini-batch."""
    actor = config["actor_rollout_ref"]["actor"]
    rollout = config["actor_rollout_ref"]["rollout"]
    if actor.get("use_dynamic_bsz"):
        return 1
    micro_batch = actor.get("ppo_micro_batch_size_per_gpu") or 1
    return math.lcm(micro_batch, rollout.get("log_prob_micro_batch_size_per_gpu") or 1)


def refuse_uneven_micro_batches(config: Mapping[str, Any], num_kept: int) -> None:
    """Raise `UnsupportedError` if a rank can't cut its rows into micro-batches of equal size.

    verl asserts it in the first update with that many rows; where passes are spared that may be a
    late step. What verl refuses by itself, such as rows that ranks can't share, is left to it.
    """
    actor = config["actor_rollout_ref"]["actor"]
    trainer = config["trainer"]
    gpus = trainer["n_gpus_per_node"] * trainer["nnodes"]
    ranks = max(gpus // (actor.get("ulysses_sequence_parallel_size") or 1), 1)
    mini_batch, remainder = divmod(actor["ppo_mini_batch_size"] * num_kept, ranks)
    if actor.get("strategy") not in _STRATEGIES or remainder:
        return

    micro_batch = actor.get("ppo_micro_batch_size_per_gpu")
    if not actor.get("use_dynamic_bsz") and micro_batch and mini_batch % micro_batch:
        raise UnsupportedError(
            f"each of {ranks} ranks has {mini_batch} rows of a mini-batch (ppo_mini_batch_size="
            f"{actor['ppo_mini_batch_size']} x m={num_kept} / {ranks}), which are no multiple of"
            f" actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro_batch}; take a divisor"
            f" of {mini_batch}, or use_dynamic_bsz=True"
        )


@dataclass(frozen=True)
class Passes:
    """The rows of a batch that have a pass.

    Args:
        rows: All rows of the batch: the kept ones, and those that verl added.
        places: The places in `rows` that have a pass, of each mini-batch; of all as many.
        advantages: What each row that has a pass is trained with, by its key.
    """

    rows: list[KeptRow]
    places: list[list[int]]
    advantages: dict[str, float]

    @property
    def mini_batch_rows(self) -> int:
        """The number of rows of each mini-batch that have a pass, over all ranks."""
        return len(self.places[0])

    @property
    def spared(self) -> int:
        """The number of kept rows that have none; those that verl added do not count."""
        return sum(not row.is_padding and row.key not in self.advantages for row in self.rows)


def plan_passes(
    rows: list[KeptRow], mini_batches: list[list[int]], ranks: int, multiple: int, divisor: str
) -> Passes:
    """Plan the fewest passes that leave the gradient of every mini-batch as it is.

    All mini-batches get the same number of rows, and at least as many as the one with the most
    rows that have a gradient. Rows without fill up the others: real ones first, of them the
    shortest. verl divides the loss of a mini-batch by the tokens, or the rows, that pass, of which
    the whole mini-batch has more; so its advantages are multiplied by the share that passes.

    Args:
        rows: The rows of the batch.
        mini_batches: The places of each mini-batch, from `mini_batches_of`.
        ranks: The number of data-parallel ranks.
        multiple: From `least_multiple`.
        divisor: From `divisor_of`.

    >>> rows = [KeptRow("a", 1.0, 5, 2), KeptRow("b", 0.0, 9, 3), KeptRow("c", -1.0, 8, 3)]
    >>> plan_passes(rows, [[0, 1, 2]], ranks=1, multiple=1, divisor="tokens").advantages
    {'a': 0.625, 'c': -0.625}
    """
    unit = ranks * multiple
    with_gradient = [sum(rows[place].has_gradient for place in places) for places in mini_batches]
    most = max(with_gradient)
    number = min(max(1, -(-most // unit)) * unit, len(mini_batches[0]))

    def order_to_pass(place: int) -> tuple[bool, bool, int]:
        row = rows[place]
        return not row.has_gradient, row.is_padding, row.tokens

    passing: list[list[int]] = []
    advantages: dict[str, float] = {}
    for mini_batch in mini_batches:
        passing_first = sorted(mini_batch, key=order_to_pass)
        places = sorted(passing_first[:number])
        share = _weight(rows, places, divisor) / max(_weight(rows, mini_batch, divisor), 1)
        passing.append(places)
        advantages.update((rows[place].key, rows[place].advantage * share) for place in places)

    return Passes(rows, passing, advantages)


def mini_batches_of(rows: int, ranks: int, mini_batch_rows: int) -> list[list[int]]:
    """The places of each mini-batch in verl's balanced batch.

    Each rank gets an equal share of the batch, in its order, and cuts it into its parts of the
    mini-batches.

    >>> mini_batches_of(8, ranks=2, mini_batch_rows=4)
    [[0, 1, 4, 5], [2, 3, 6, 7]]
    """
    share = rows // ranks
    part = mini_batch_rows // ranks

    mini_batches = []
    for start in range(0, share, part):
        places: list[int] = []
        for rank in range(ranks):
            first = rank * share + start
            places += range(first, first + part)
        mini_batches.append(places)
    return mini_batches


def advantage_metrics(rows: Sequence[KeptRow]) -> dict[str, float]:
    """verl's metrics of the advantages and returns of all kept rows, over their trained tokens."""
    counted = [row for row in rows if row.trained_tokens and not row.is_padding]
    if not counted:
        return {}
    tokens = sum(row.trained_tokens for row in counted)
    values = {
        "mean": sum(row.advantage * row.trained_tokens for row in counted) / tokens,
        "max": max(row.advantage for row in counted),
        "min": min(row.advantage for row in counted),
    }
    return {
        f"critic/{name}/{statistic}": value
        for name in ("advantages", "returns")
        for statistic, value in values.items()
    }


def _weight(rows: Sequence[KeptRow], places: Sequence[int], divisor: str) -> int:
    """The number that verl divides the loss of these rows by."""
    if divisor == "tokens":
        return sum(rows[place].trained_tokens for place in places)
    return len(places) if divisor == "rows" else 1
