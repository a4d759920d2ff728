"""The settings of a selection, and the one step of selecting, which every host takes.

    Selection  (n, m, rule, baseline, seed, weights)
    rewards    ->  select()  ->  Selected  (what is kept, advantages, masks, metrics)

A host says where its rewards are, and where the rows that are not kept leave.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from podsrl.advantages import BASELINES, group_advantages
from podsrl.errors import FieldError
from podsrl.metrics import part_correlations, selection_metrics
from podsrl.rewards import (
    Rewards,
    are_weights,
    padded,
    refuse_infinite,
    rewards_of_groups,
)
from podsrl.rules import Rule, RuleName, downsample, resolve_rule
from podsrl.rules.api import keep_rows, weights_of_kept
from podsrl.rules.registry import rule_name


@dataclass(frozen=True)
class Selection:
    """The settings of a selection: the sizes n and m, the rule, and the baseline of advantages.

    Args:
        num_rollouts: The number n of rollouts that are generated for each prompt.
        num_kept: The number m of rollouts of each prompt that the update sees; with a batch rule
            the mean over prompts. It is at least the rule's `least_kept`. With 1, a rule that may
            keep a row alone (`needs_group_baseline`) needs the baseline "group".
        rule: A prompt rule or a batch rule: a name in `podsrl.RULES`, "module:function",
            "file.py:function", or a callable.
        baseline: The rewards with which a reward is compared: those of the "kept" rollouts (the
            paper), or of all n of the "group".
        seed: The seed that breaks ties, differently in each step, and that of the rule "random".
            None: the lower rollout number wins; with selection_weights ties are random.
        selection_weights: Weights for the selection, by the names of the reward's parts ("score" is
            the reward itself); None: select by the reward.
        method: The name of the method from which these settings come, for logs; "" for none.

    Raises:
        FieldError: A size out of range, an unknown baseline, a rule or weights of a wrong kind; the
            message says what is allowed.
        UnknownNameError: There is no such rule.

    >>> Selection(num_rollouts=4, num_kept=2).select([[0.0, 0.0, 1.0, 0.5], [1.0, 0.0]])
    [[0, 2], [0, 1]]
    """

    num_rollouts: int
    num_kept: int
    rule: RuleName = "max_variance"
    baseline: Literal["kept", "group"] = "kept"
    seed: int | None = None
    selection_weights: Mapping[str, float] | None = None
    method: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        self._check_are_integers()
        if self.baseline not in list(BASELINES):  # a list: the value may be one that has no hash
            raise FieldError(
                "$baseline=$given; allowed: $known",
                given=repr(self.baseline),
                known=_listed(BASELINES),
            )
        self._check_sizes(self.chosen_rule)
        if self.seed is not None and (not _is_integer(self.seed) or self.seed < 0):
            raise FieldError("$seed=$given; allowed: an integer >= 0", given=repr(self.seed))
        if self.selection_weights is not None:
            self._check_weights(self.selection_weights)

    @cached_property
    def chosen_rule(self) -> Rule:
        """The rule of that name."""
        return resolve_rule(self.rule)

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is dropped."""
        return self.num_rollouts == self.num_kept

    @property
    def across_prompts(self) -> bool:
        """Whether the rule keeps rows across prompts."""
        return self.chosen_rule.across_prompts

    @property
    def advantages_sum_to_zero(self) -> bool:
        """Whether the advantages that are kept of a group sum to 0."""
        return not self.unbalanced_by

    @property
    def unbalanced_by(self) -> str:
        """The setting with which advantages that are kept of a group don't sum to 0; "" if they do.

        A host must not subtract their mean then, and can't compute them from the kept rows itself.
        """
        if not BASELINES[self.baseline].sums_to_zero:
            return f"baseline={self.baseline}"
        if self.chosen_rule.weights is not None:
            return f"rule={rule_name(self.rule)}, which weighs rows,"
        return ""

    @property
    def in_words(self) -> str:
        """The sizes, in words for messages: "4 of 8", "1 of 3 on average"."""
        mean = " on average" if self.across_prompts else ""
        return f"{self.num_kept} of {self.num_rollouts}{mean}"

    def select(self, scores: Iterable[Any], *step: int) -> list[list[int]]:
        """Select the rollouts to keep of each group; their indices are ascending.

        Args:
            scores: What the rollouts of each group are selected by; NaN where one could not be
                scored. Groups may differ in size; with a prompt rule one of at most m is kept
                whole.
            step: Numbers of the step; with a seed each step draws anew.

        Raises:
            InvalidInputError: An infinite score, or a rule of the user's own that returns nonsense.
        """
        groups = [np.asarray(group, dtype=np.float64) for group in scores]
        for group in groups:
            refuse_infinite(group)

        seed = self._seed_of(step)
        if self.across_prompts:
            return self._select_across(groups, seed)
        return self._select_of_each(groups, seed)

    def _select_across(self, groups: Sequence[np.ndarray], seed: Any) -> list[list[int]]:
        scores_P_N, there_P_N = padded(groups)
        rows = self.num_kept * len(groups)
        kept_P_N = keep_rows(scores_P_N, there_P_N, rows, self.rule, seed)
        return [np.flatnonzero(kept_N).tolist() for kept_N in kept_P_N]

    def _select_of_each(self, groups: Sequence[np.ndarray], seed: Any) -> list[list[int]]:
        """Groups of one size go through the rule together; small ones are kept whole."""
        kept = [list(range(len(group))) for group in groups]
        for size in {len(group) for group in groups if len(group) > self.num_kept}:
            places = [place for place, group in enumerate(groups) if len(group) == size]
            chosen = downsample([groups[p] for p in places], self.num_kept, self.rule, seed)
            for place, kept_M in zip(places, chosen, strict=True):
                kept[place] = kept_M
        return kept

    def _seed_of(self, step: Sequence[int]) -> list[int] | None:
        """The seed of a step, which every process of a run draws alike where `seed` is given."""
        if self.seed is not None:
            return [self.seed, *step]
        if self.selection_weights is not None:
            # A part of the reward, such as right or wrong, has many ties. By rollout number they
            # would always be decided for the first ones, whatever the rest of the reward says.
            return [secrets.randbits(32)]
        return None

    def _check_are_integers(self) -> None:
        for name in ("num_rollouts", "num_kept"):
            value = getattr(self, name)
            if value is None:
                raise FieldError(f"${name} is not set; set it to an integer")
            if not _is_integer(value):
                raise FieldError(f"${name} must be an integer; got $given", given=repr(value))

    def _check_sizes(self, rule: Rule) -> None:
        n, m = self.num_rollouts, self.num_kept
        by_group = not BASELINES[self.baseline].sums_to_zero
        alone_is_compared = by_group or not rule.needs_group_baseline
        least = max(rule.least_kept, 1 if alone_is_compared else 2)
        allowed = f"allowed: {least} <= m <= {n} ($num_rollouts, rollouts generated per prompt)"

        if n < 2:
            raise FieldError(f"$num_rollouts={n}; allowed: at least 2, to compare them")
        if m < least and rule.across_prompts and m == 1:
            raise FieldError(
                f"$num_kept={m} with $rule=$given needs $baseline=group: the rule may keep a row"
                f" alone, which has no other kept one to compare with; {allowed}",
                given=rule.name,
            )
        if m < least:
            raise FieldError(
                f"$num_kept={m}; {allowed}. One kept rollout has no other to compare with; 1 is"
                " allowed with $baseline=group and $rule=max_reward, and with a rule across"
                " prompts, such as $rule=max_contrast, where m is a mean"
            )
        if m > n:
            raise FieldError(
                f"$num_kept={m} rollouts can't be kept of $num_rollouts={n}; {allowed}, or raise"
                " $num_rollouts"
            )

    @staticmethod
    def _check_weights(weights: Any) -> None:
        is_named = isinstance(weights, Mapping)
        if is_named and are_weights(weights.values()):
            return
        raise FieldError(
            "$selection_weights=$given$all_zero; allowed: numbers by name of the reward's part, not"
            " all 0, such as {acc: 1.0}; score is the reward itself",
            given=repr(weights),
            all_zero=" are all 0" if is_named and not any(weights.values()) else "",
        )


@dataclass(frozen=True, repr=False)
class Selected:
    """The kept rollouts of a step, with their advantages and metrics; the same for every host.

    All arrays have shape (P, N): P prompts, of which the largest has N rollouts.

    Args:
        selection: How they were selected.
        rewards: The rewards of all rollouts.
        kept_P_N: True for the rollouts that are kept.
        scale: What advantages are divided by: the deviation of the "group", of the "batch" of all
            kept rewards, or by "none".
        eps: What is added to the deviation, in units of reward.
        correction: 1 for the unbiased deviation of a group, 0 for that of a whole population.
    """

    selection: Selection
    rewards: Rewards
    kept_P_N: np.ndarray
    scale: Literal["group", "batch", "none"] = "group"
    eps: float = 1e-4
    correction: int = 1

    @cached_property
    def advantages_P_N(self) -> np.ndarray:
        """The advantages of the kept rollouts, times the rule's weights if it has some; else 0."""
        # Where nothing is dropped the result must be the host's, which counts a missing part as 0.
        keeps_all = bool(self.kept_P_N.all())
        compared = self.rewards.total_P_N if keeps_all else self.rewards.compared_P_N
        compared_P_N = compared.astype(np.float64)

        advantages_P_N: np.ndarray = group_advantages(
            compared_P_N,
            self.kept_P_N,
            baseline=self.selection.baseline,
            scale=self.scale == "group",
            eps=self.eps,
            correction=self.correction,
        )
        if self.scale == "batch":
            compared_K = compared_P_N[self.kept_P_N]
            compared_K = compared_K[~np.isnan(compared_K)]
            deviation = compared_K.std(ddof=1) if compared_K.size > 1 else 0.0
            advantages_P_N = advantages_P_N / (deviation + self.eps)

        if keeps_all or self.selection.chosen_rule.weights is None:
            return advantages_P_N  # with all kept the rule was not asked
        scores_P_N = self.rewards.scores_P_N.astype(np.float64)
        return advantages_P_N * weights_of_kept(self.selection.rule, scores_P_N, self.kept_P_N)

    @property
    def has_contrast(self) -> bool:
        """Whether what the update compares differs within any prompt, by more than rounding.

        Advantages don't tell: a host's own may be computed in float32, where the mean of eight
        rewards of 0.1 is not 0.1.
        """
        rewards = self.rewards
        if rewards.normalises_first:
            compared_P_N = rewards.normalised_sums(rewards.reward_weights_F, self.kept_P_N)
        else:
            compared_P_N = rewards.total_P_N
        return has_contrast(compared_P_N, self.kept_P_N)

    @property
    def all_masked_though_rewards_differ(self) -> bool:
        """Whether the host's loss leaves out all that is kept, while rewards of a prompt differ."""
        masked_K = self.rewards.masked_P_N[self.kept_P_N]
        everything_P_N = np.ones_like(self.kept_P_N)
        return bool(masked_K.all()) and has_contrast(self.rewards.total_P_N, everything_P_N)

    @property
    def kept(self) -> list[list[int]]:
        """The places of the kept rollouts of each group, ascending."""
        return [np.flatnonzero(kept_N).tolist() for kept_N in self.kept_P_N]

    @property
    def advantages(self) -> list[list[float]]:
        """Their advantages, in the same order."""
        groups = zip(self.advantages_P_N, self.kept_P_N, strict=True)
        return [advantages_N[kept_N].tolist() for advantages_N, kept_N in groups]

    @property
    def of_kept(self) -> list[dict[int, float]]:
        """The advantages of the kept rollouts, by their places, of each group."""
        groups = zip(self.kept, self.advantages, strict=True)
        return [dict(zip(kept, advantages, strict=True)) for kept, advantages in groups]

    @property
    def with_gradient(self) -> list[dict[int, float]]:
        """The entries of `of_kept` with a gradient: advantages other than 0 that nothing masks.

        Where a loss is a sum over rows, the others need no pass. Where it is a mean, it is one over
        all kept rows.
        """
        groups: list[dict[int, float]] = []
        for of_group, masked_N in zip(self.of_kept, self.rewards.masked_P_N, strict=True):
            groups.append(
                {
                    place: advantage
                    for place, advantage in of_group.items()
                    if advantage and not masked_N[place]
                }
            )
        return groups

    def metrics(
        self,
        tokens: Sequence[Any] | None = None,
        advantages_P_N: np.ndarray | None = None,
    ) -> dict[str, float]:
        """The metrics to log, by names under `pods/`.

        Args:
            tokens: The number of tokens of each rollout of each group, of prompt and completion
                together; None: they are not known.
            advantages_P_N: The advantages that the update is made with, where they are not these.
        """
        rewards = self.rewards
        if advantages_P_N is None:
            advantages_P_N = self.advantages_P_N
        tokens_P_N = np.zeros(self.kept_P_N.shape)
        if tokens is not None:
            tokens_P_N = np.nan_to_num(padded(tokens)[0])
        metrics = selection_metrics(
            rewards.total_P_N.astype(np.float64),
            self.kept_P_N,
            advantages_P_N,
            tokens_P_N,
            generated_P_N=rewards.generated_P_N,
            masked_P_N=rewards.masked_P_N,
        )
        if tokens is None:
            del metrics["pods/kept_tokens"], metrics["pods/dropped_tokens"]
        return metrics | part_correlations(
            rewards.names_F,
            rewards.by_function_P_N_F[..., : len(rewards.names_F)],
            advantages_P_N,
            self.kept_P_N,
            self.selection.baseline,
        )


def select(
    selection: Selection,
    rewards: Rewards,
    *step: int,
    scale: Literal["group", "batch", "none"] = "group",
    eps: float = 1e-4,
    correction: int = 1,
) -> Selected:
    """Select rollouts of a step: the one way from rewards to what the update sees.

    Args:
        selection: How.
        rewards: The rewards of all rollouts.
        step: Numbers of the step; with a seed each step draws anew.
        scale, eps, correction: As in `Selected`.

    Raises:
        InvalidInputError: An infinite reward, or a rule of the user's own that returns nonsense.
    """
    # Of each group the rollouts that there are, without what makes groups equal in size.
    scores: list[np.ndarray] = list(rewards.scores_P_N)
    if rewards.generated_P_N is not None:
        groups = zip(rewards.scores_P_N, rewards.generated_P_N, strict=True)
        scores = [scores_N[generated_N] for scores_N, generated_N in groups]

    kept_P_N = np.zeros(rewards.scores_P_N.shape, dtype=bool)
    for kept_N, places in zip(kept_P_N, selection.select(scores, *step), strict=True):
        kept_N[places] = True
    return Selected(selection, rewards, kept_P_N, scale, eps, correction)


def select_groups(
    selection: Selection,
    rewards: Sequence[Sequence[float]],
    parts: Sequence[Sequence[Mapping[str, Any]]] | None = None,
    *,
    masked: Sequence[Sequence[bool]] | None = None,
    step: int = 0,
    scale: bool = True,
    eps: float = 1e-4,
) -> Selected:
    """Select rollouts of the groups of a step, which may differ in size.

    Args:
        selection: How.
        rewards: The reward of each rollout of each group; NaN if it could not be scored.
        parts: The parts of each reward by their names, for `selection_weights` and for metrics.
        masked: True where the loss leaves a rollout out, such as one that was cut off; it is kept
            last.
        step: The number of the step; with a seed each step draws anew.
        scale: As in `group_advantages`.
        eps: As in `group_advantages`.

    Raises:
        InvalidInputError: An infinite reward, or a part that is missing.

    >>> selected = select_groups(Selection(4, 2), [[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]])
    >>> selected.kept
    [[0, 1], [0, 1]]
    >>> [list(group) for group in selected.with_gradient]
    [[0, 1], []]
    """
    of_groups = rewards_of_groups(rewards, parts, selection.selection_weights, masked)
    return select(selection, of_groups, step, scale="group" if scale else "none", eps=eps)


def has_contrast(rewards_P_N: np.ndarray, kept_P_N: np.ndarray) -> bool:
    """Whether the kept rewards of any prompt differ, by more than float32 rounds them.

    >>> kept = np.ones((1, 8), dtype=bool)
    >>> has_contrast(np.full((1, 8), 0.1), kept), has_contrast(np.arange(8.0)[None], kept)
    (False, True)
    """
    counts_P_N = kept_P_N & ~np.isnan(rewards_P_N)
    highest_P = np.where(counts_P_N, rewards_P_N, -np.inf).max(axis=1, initial=-np.inf)
    lowest_P = np.where(counts_P_N, rewards_P_N, np.inf).min(axis=1, initial=np.inf)
    known_P = counts_P_N.any(axis=1)

    size_P = np.maximum(np.abs(highest_P[known_P]), np.abs(lowest_P[known_P]))
    spread_P = highest_P[known_P] - lowest_P[known_P]
    return bool((spread_P > 4 * np.finfo(np.float32).eps * size_P).any())


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
