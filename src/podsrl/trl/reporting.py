"""The reports of a generation: metrics, advice, and TRL's table of completions.

* TRL's metrics of rewards, over all n rollouts, and podsrl's, of what the update sees.
* Advice: what would cost a day in silence, said once.
* TRL's table of completions (`log_completions`), with the dropped rollouts and the columns `kept`
  and `rule`.
"""

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers.integrations import TensorBoardCallback
from trl.trainer.utils import nanstd

from podsrl.rollout_log.turns import text_of
from podsrl.trl.generation import KeptRows, Rollouts
from podsrl.trl.messages import logger
from podsrl.trl.rounds import first_round, of_first_round
from podsrl.trl.rows import extra_logs_of
from podsrl.trl.settings import Settings

_STEPS_WITHOUT_CONTRAST = 10  # after which that is said
STEPS_WITHOUT_REWARD = 20  # after which a run ends
_FIRST_STEPS = 5  # in which a part of the reward that is not followed is told
#: Correlations of the update with a part of the reward that it follows, and with one that it
#: does not.
_FOLLOWED, _NOT_FOLLOWED = 0.9, 0.1
_LEAST_PIECES = 4  # of rollouts, from which on equal rewards of pieces are no accident

#: Rows and characters of a text that TensorBoard gets; it draws the whole table for each step.
_ROWS = 64
_CHARACTERS = 1_000

#: What means something in a cell of Markdown.
_MARKDOWN = str.maketrans({c: f"&#{ord(c)};" for c in "\\|`*_[]"} | {"\n": "<br>"})

Logs = dict[str, Any]

# ---- metrics


def trl_metrics(rollouts: Rollouts, settings: Settings) -> dict[str, float]:
    """TRL's own reward metrics, over all n rollouts where TRL would see the kept ones only.

    With rounds they are over the first one, which is made whatever rewards come.
    """
    if rollouts.round_P_N is not None:
        rollouts = _first_round(rollouts, rollouts.round_P_N)

    # As tensors and by TRL's own functions, so that the values are TRL's to the last digit.
    rewards_P_N = torch.from_numpy(rollouts.rewards.total_P_N)
    metrics = {
        "reward": torch.nanmean(rewards_P_N).item(),
        "reward_std": nanstd(rewards_P_N.flatten()).item(),
        "frac_reward_zero_std": _share_without_spread(rollouts, settings),
    }
    names_F = settings.reward_functions
    for name, of_function_P_N in zip(names_F, rollouts.by_function_P_N_F.unbind(-1), strict=True):
        metrics[f"rewards/{name}/mean"] = torch.nanmean(of_function_P_N).item()
        metrics[f"rewards/{name}/std"] = nanstd(of_function_P_N.flatten()).item()
    return metrics


def _first_round(rollouts: Rollouts, round_P_N: np.ndarray) -> Rollouts:
    prompts, of_each = map(torch.from_numpy, first_round(round_P_N))
    return replace(
        rollouts,
        by_function_P_N_F=rollouts.by_function_P_N_F[prompts][:, of_each],
        rewards=of_first_round(rollouts.rewards, round_P_N),
    )


def _share_without_spread(rollouts: Rollouts, settings: Settings) -> float:
    """TRL's `frac_reward_zero_std`: the share of rollouts whose deviation is 0.

    It is the deviation that TRL looks at: of the group, or of all rollouts where it divides by
    that, or normalises each function first.
    """
    # In float32, as TRL has them, the deviation of eight rewards of .4 is 3e-8, and not 0.
    rewards = rollouts.rewards
    if settings.normalises_first:
        everything_P_N = np.ones(rewards.masked_P_N.shape, dtype=bool)
        sums_P_N = rewards.normalised_sums(rewards.reward_weights_F, everything_P_N)
        deviation_P = nanstd(torch.from_numpy(sums_P_N).flatten()).reshape(1)
    elif settings.scale_rewards == "batch":
        deviation_P = nanstd(torch.from_numpy(rewards.total_P_N).double().flatten()).reshape(1)
    else:
        deviation_P = nanstd(torch.from_numpy(rewards.total_P_N).double(), dim=-1)

    # A group without any reward has no spread either.
    is_constant_P = torch.isnan(deviation_P) | torch.isclose(
        deviation_P, torch.zeros_like(deviation_P)
    )
    return is_constant_P.float().mean().item()


def pods_metrics(kept: KeptRows, advantages_P_N: np.ndarray | None = None) -> dict[str, float]:
    """The metrics of what the update sees of a generation, under `pods/`.

    Args:
        kept: What is kept.
        advantages_P_N: The advantages that it is trained with, where they are not podsrl's; 0 where
            nothing is kept.
    """
    rollouts = kept.rollouts
    metrics = kept.selected.metrics(list(rollouts.tokens_P_N), advantages_P_N)
    partly_scored_P_N = rollouts.rewards.partly_scored_P_N_F.any(axis=-1)
    metrics["pods/partly_scored"] = float(partly_scored_P_N.sum())
    if rollouts.round_P_N is not None:
        metrics["pods/rounds"] = float(rollouts.round_P_N.max() + 1)
        metrics["pods/generated_share"] = float(rollouts.generated_P_N.mean())
    return metrics


def masked_rows(output: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The number of this rank's rows that vLLM's importance correction takes out of the loss."""
    counted = output["completion_mask"].bool()
    left = counted & (output["importance_sampling_ratio"] != 0)
    return (counted.any(dim=1) & ~left.any(dim=1)).sum()


# ---- advice


class Advice:
    """Looks at each generation, and says once what is likely a mistake.

    A step may have several generations (`gradient_accumulation_steps`), and a generation several
    steps (`steps_per_generation`). What is said of steps is counted when they end.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._contrast_of_step: list[bool] = []  # of its generations so far
        self._has_contrast: bool | None = None  # whether what is trained on has any
        self._steps_without_contrast = 0  # in a row; those that nothing scored are left out
        self._has_ended_one = False

    def look(self, kept: KeptRows, metrics: Mapping[str, float]) -> None:
        """Look at a generation and at its metrics.

        Args:
            kept: All n rollouts of each prompt, and what is kept of them.
            metrics: What `pods_metrics` found.
        """
        rollouts = kept.rollouts
        step = rollouts.step + 1
        if np.isnan(rollouts.rewards.total_P_N).all():
            self._tell_of_no_reward(kept, step)  # all else follows from it
            self._has_contrast = None
            return
        if not kept.selected.selection.keeps_all:  # else every value stays the host's own
            self._tell_of_partly_scored(rollouts, step)
            self._tell_of_pieces(kept, step)
            if step <= _FIRST_STEPS:
                self._tell_of_one_part(rollouts, metrics, step)

        masked = metrics.get("pods/masked_rows", 0)
        if masked > 0:
            self._tell_once(
                "masked rows",
                step,
                f"vLLM's importance correction masked {masked:.0f} rows after they were selected;"
                " vllm_importance_sampling_mode='token_truncate' masks none",
            )

        if kept.selected.all_masked_though_rewards_differ:
            self._tell_of_masked(kept, step)
        else:
            self._contrast_of_step.append(kept.selected.has_contrast)

    def end_step(self, step: int) -> None:
        """An optimiser step ends: it is told if it taught nothing, and if steps have for long.

        Args:
            step: Its number, from 1.
        """
        if self._contrast_of_step:
            self._has_contrast = any(self._contrast_of_step)
            self._contrast_of_step.clear()
        if self._has_contrast is not None:
            self._tell_of_no_contrast(self._has_contrast, step)

    def _tell_of_no_reward(self, kept: KeptRows, step: int) -> None:
        names = ", ".join(kept.rollouts.rewards.names_F)
        self._tell_once(
            "no reward",
            step,
            f"no rollout got a reward: {names} returned None or NaN for each of"
            f" {kept.kept_P_N.size}. No weight moves until one does; after"
            f" {STEPS_WITHOUT_REWARD} such steps in a row the run ends",
        )

    def _tell_of_masked(self, kept: KeptRows, step: int) -> None:
        """Tell where the loss leaves out every row, such as where answers end by a stop string."""
        ends = sorted({ids[-1] for ids in kept.rollouts.columns["completion_ids"] or () if ids})
        shown = ", ".join(map(str, ends[:5])) + (", ..." if len(ends) > 5 else "")
        self._tell_once(
            "all cut off",
            step,
            "mask_truncated_completions left out all kept rows, though their rewards differ, so"
            " nothing is learned: TRL takes an answer for cut off unless its last token is the"
            f" tokenizer's end token. Here the last tokens are {shown}. Let generation end by that"
            " token (not by a stop string or another one), raise max_completion_length, or set"
            " mask_truncated_completions=False",
        )

    def _tell_of_pieces(self, kept: KeptRows, step: int) -> None:
        """Tell where a reward function ranks pieces of m rollouts, and a group is n of them."""
        rewards = kept.rollouts.rewards
        if rewards.generated_P_N is not None:  # groups differ in size
            return
        n, m = kept.selected.selection.num_rollouts, kept.selected.selection.num_kept
        if n % m or m < 2 or rewards.total_P_N.size < _LEAST_PIECES * m:
            return

        for f, name in enumerate(rewards.names_F):
            pieces_m = np.sort(rewards.by_function_P_N_F[..., f].reshape(-1, m), axis=-1)
            are_ranks = bool((np.diff(pieces_m[0]) > 0).all() and (pieces_m == pieces_m[0]).all())
            if are_ranks:
                self._tell_once(
                    f"pieces of {name}",
                    step,
                    f"reward function {name!r} gave the same {m} different rewards to every {m}"
                    f" rollouts, as if groups were num_generations={m} wide; here {n} rollouts are"
                    " generated for each prompt, so that the best of them may be dropped. It is"
                    " given that number as num_rollouts: cut by it",
                )

    def _tell_of_partly_scored(self, rollouts: Rollouts, step: int) -> None:
        rewards = rollouts.rewards
        count_F = rewards.partly_scored_P_N_F.sum(axis=(0, 1)).tolist()
        for name, count in zip(rewards.names_F, count_F, strict=True):
            if count:
                self._tell_once(
                    f"partly scored by {name}",
                    step,
                    f"reward function {name!r} gave no reward to {count} of"
                    f" {rewards.total_P_N.size} rollouts, and others did: such rollouts are kept"
                    " last",
                )

    def _tell_of_one_part(
        self, rollouts: Rollouts, metrics: Mapping[str, float], step: int
    ) -> None:
        """Tell where all that is kept differs in one part of the reward, and not in another.

        Such as a length penalty where all answers are wrong.
        """
        rewards = rollouts.rewards
        names_F = rewards.names_F
        weights_F = rewards.reward_weights_F
        has_chosen = not np.array_equal(rewards.selection_weights_F, weights_F)
        if has_chosen or not names_F:
            return

        # Whether a part differs within any prompt, and how closely the update follows it.
        highest_P_F = np.fmax.reduce(rewards.by_function_P_N_F, axis=1)
        lowest_P_F = np.fmin.reduce(rewards.by_function_P_N_F, axis=1)
        varies_F = (highest_P_F > lowest_P_F).any(axis=0)
        correlations_F = [metrics[f"pods/correlation/{name}"] for name in names_F]
        follows_F = np.abs(correlations_F)

        is_left_out_F = (weights_F != 0) & varies_F & (follows_F <= _NOT_FOLLOWED)
        if not is_left_out_F.any() or follows_F.max() < _FOLLOWED:
            return

        followed = names_F[int(follows_F.argmax())]
        first = int(is_left_out_F.argmax())
        left_out = names_F[first]
        by_the_others_F = np.where(follows_F < _FOLLOWED, weights_F, 0.0).tolist()
        self._tell_once(
            "one part",
            step,
            f"what is kept differs in {followed!r}, and not in {left_out!r}, which varies too"
            f" (pods/correlation/{left_out} is {correlations_F[first]:.2f}); if {left_out!r} should"
            f" decide, selection_weights={by_the_others_F} selects by it",
        )

    def _tell_of_no_contrast(self, has_any: bool, step: int) -> None:
        if not self._has_ended_one:
            self._has_ended_one = True
            if not has_any:
                self._tell_once(
                    "no contrast at first",
                    step,
                    "all kept rewards of a prompt are equal, for every prompt, so this step teaches"
                    " nothing. That is usual where right answers are rare; if it stays so, look at"
                    " the rollouts with `pods inspect`",
                )

        self._steps_without_contrast += 1
        if has_any:
            self._steps_without_contrast = 0
            self._told.discard("no contrast")  # it is told again if it comes again
        elif self._steps_without_contrast >= _STEPS_WITHOUT_CONTRAST:
            self._tell_once(
                "no contrast",
                step,
                f"for {_STEPS_WITHOUT_CONTRAST} steps the kept rewards of every prompt were equal,"
                " so nothing was learned; `pods inspect` shows the rollouts. Where prompts are"
                " conversations, a reward function gets lists of messages: the text is"
                " completion[-1]['content']",
            )

    def _tell_once(self, about: str, step: int, message: str) -> None:
        if about not in self._told:
            self._told.add(about)
            logger.warning("step %d: %s", step, message)


# ---- TRL's table of completions


def with_dropped(logs: Mapping[str, Any], selected: KeptRows, tokenizer: Any) -> Logs:
    """The columns that TRL holds for its table, followed by those of the dropped rollouts.

    All processes must call it, as TRL gathers texts, too. Beside what TRL holds there are "groups",
    the number of each rollout's prompt, and "reward", the weighted sum.

    Args:
        logs: TRL's `_logs` after its method: the kept rows are the last ones.
        selected: What was kept.
        tokenizer: Decodes prompts and completions, where TRL logs their texts (before 1.15).
    """
    rollouts = selected.rollouts
    names_F = rollouts.rewards.names_F
    dropped_P_N = rollouts.generated_P_N & ~selected.kept_P_N
    is_dropped = dropped_P_N.ravel()[list(rollouts.places)]
    own = np.flatnonzero(is_dropped).tolist()  # the dropped ones that this process generated

    # Shares ascend with the processes, so this is also the order in which texts are gathered.
    places_D = np.flatnonzero(dropped_P_N).tolist()
    places = [*selected.moves.places, *places_D]

    def of_dropped(column: Sequence[Any] | None) -> list[Any]:
        values = [column[index] for index in own] if column else [None] * len(own)
        gathered: list[Any] = gather_object(values)
        return gathered

    def texts_of_dropped(name: str) -> list[Any]:
        """The dropped ones as TRL logs kept ones: as conversations, before TRL 1.15 as texts."""
        logged = logs[name]
        conversations = rollouts.columns[name] or ()
        if not logged or not conversations or type(logged[-1]) is type(conversations[0]):
            return of_dropped(conversations)
        ids = rollouts.columns[f"{name}_ids"] or ()
        return of_dropped(tokenizer.batch_decode(list(ids), skip_special_tokens=True))

    rows = int(selected.kept_P_N.sum())
    dropped = len(places_D)
    rewards_F_D = rollouts.by_function_P_N_F.flatten(0, 1)[places_D].T.tolist()
    extra = extra_logs_of(rollouts.columns)
    images = _last(logs.get("images", ()), rows)
    return {
        "prompt": _last(logs["prompt"], rows) + texts_of_dropped("prompt"),
        "completion": _last(logs["completion"], rows) + texts_of_dropped("completion"),
        "rewards": {
            name: _last(logs["rewards"][name], rows) + rewards_D
            for name, rewards_D in zip(names_F, rewards_F_D, strict=True)
        },
        "advantages": _last(logs["advantages"], rows) + [math.nan] * dropped,
        "extra": {
            "kept": [True] * rows + [False] * dropped,
            "rule": [selected.selected.selection.rule] * (rows + dropped),
            **{
                name: _last(logs["extra"][name], rows) + of_dropped(extra[name])
                for name in sorted(extra)
            },
        },
        "images": images + [None] * dropped if images else [],
        "groups": [place // selected.kept_P_N.shape[1] for place in places],
        "reward": rollouts.rewards.total_P_N.ravel()[places].tolist(),
    }


def _last(column: Iterable[Any], rows: int) -> list[Any]:
    return list(column)[-rows:]


def write_to_tensorboard(callbacks: Iterable[Any], logs: Logs, step: int) -> None:
    """Write the table as text, where a run reports to TensorBoard; the first rows of it."""
    for callback in callbacks:
        writer = getattr(callback, "tb_writer", None)
        if isinstance(callback, TensorBoardCallback) and writer is not None:
            writer.add_text("completions", as_markdown(logs), step)


def as_markdown(logs: Logs) -> str:
    """The table in Markdown: half of its rows kept and half dropped, as far as there are any.

    What models wrote is escaped, so that it stays text, and stays in its cell.
    """
    kept = logs["extra"]["kept"]
    kept_places = [place for place, is_kept in enumerate(kept) if is_kept is True]
    dropped_places = [place for place, is_kept in enumerate(kept) if is_kept is False]
    places = kept_places[: _ROWS // 2] + dropped_places[: _ROWS // 2]

    columns: dict[str, Sequence[Any]] = {
        "kept": kept,
        "rule": logs["extra"]["rule"],
        "prompt": logs["prompt"],
        "completion": logs["completion"],
        **logs["rewards"],
        "advantage": logs["advantages"],
    }
    lines = [_line(columns), _line(["---"] * len(columns))]
    for place in places:
        lines.append(_line([column[place] for column in columns.values()]))
    return "\n".join(lines)


def _line(values: Iterable[Any]) -> str:
    return "| " + " | ".join(map(_cell, values)) + " |"


def _cell(value: Any) -> str:
    """A value as the text of a cell."""
    if isinstance(value, list):  # a conversation
        value = "\n".join(text_of([{**message, "role": "assistant"}]) for message in value)
    elif isinstance(value, float):
        value = None if math.isnan(value) else f"{value:.4g}"
    text = html.escape("" if value is None else str(value)[:_CHARACTERS])
    return text.translate(_MARKDOWN)


@contextmanager
def beside_the_training_table(output_dir: str, step: int, writes: bool) -> Iterator[None]:
    """Inside, TRL writes an evaluation's table of completions; it gets a name of its own.

    TRL names the table by the step alone, so that of an evaluation would take the place of the one
    that training wrote in the same step.

    Args:
        output_dir: TRL's, in whose folder "completions" the tables are.
        step: The optimiser step.
        writes: Whether TRL writes a table on this process.
    """
    table = Path(output_dir) / "completions" / f"completions_{step:05d}.parquet"
    of_training = table.with_suffix(".training")
    had_one = writes and table.is_file()
    if had_one:
        table.replace(of_training)
    try:
        yield
    finally:
        if writes and table.is_file():
            table.replace(table.with_name(f"{table.stem}_eval.parquet"))
        if had_one:
            of_training.replace(table)
