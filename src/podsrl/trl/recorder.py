"""The one writer of a training run's folder, for `PODSTrainer` by itself and for `pods train`."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from podsrl.errors import InvalidInputError, RecordError, listed
from podsrl.methods import method_of
from podsrl.rollout_log.files import plain
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.turns import text_of, turns_of
from podsrl.rollout_log.writer import LoggedSteps, RolloutColumns, RolloutLog
from podsrl.trl.checkpoint import changes
from podsrl.trl.config import PODSConfig
from podsrl.trl.generation import KeptRows, Rollouts
from podsrl.trl.logged_images import LoggedImages
from podsrl.trl.messages import logger
from podsrl.trl.rows import Columns
from podsrl.trl.settings import Settings
from podsrl.trl.token_values import TokenEnds, last_message

PAPER = {
    "title": "Not All Rollouts are Useful: Down-Sampling Rollouts in LLM Reinforcement Learning",
    "id": "2504.13818",
}
PAPER["citation"] = f"""@article{{xu2025rollouts,
    title   = {{{{{PAPER["title"]}}}}},
    author  = {{Yixuan Even Xu and Yash Savani and Fei Fang and J. Zico Kolter}},
    year    = 2025,
    eprint  = {{arXiv:2504.13818}},
}}"""


class RunRecorder(TrainerCallback):
    """Writes config, environment, metrics and rollouts of a run, and that it is finished.

    The main process writes, except that each process writes the rollouts that it generated; no
    other run writes meanwhile. A run that starts anew in a used folder deletes nothing: what an
    earlier one recorded and saved is moved to `previous-1`.
    """

    def __init__(self, args: PODSConfig, model: str, settings: Settings) -> None:
        self.args = args
        self.run = RunFolder(Path(str(args.output_dir)))
        self.config: Mapping[str, Any] = {  # `pods train` puts all its settings here
            "task": None,
            "arm": method_of(settings.selection),
            "model_name_or_path": model,
            **args.settings(),
            **settings.as_fields(),
        }
        self.run_id: str | None = None  # of the run, or of the checkpoint it is resumed from
        self._rollouts: RolloutLog | None = None
        self._token_ends: TokenEnds | None = None
        self._lost: set[str] = set()  # what can't be written, which was told

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the folder anew, or forget in it what a resumed run does again."""
        if PartialState().is_main_process:
            self.run.lock()
            if state.global_step:
                self._go_on(state.global_step)
            else:
                self.run_id = uuid4().hex
                if (moved := self.run.set_aside()) is not None:
                    logger.warning(
                        "%s was used before; what was recorded and saved there is now in %s",
                        self.run.path,
                        moved,
                    )

            self.run.write_config(self.config)
            self.run.write_environment(self.run_id)

        PartialState().wait_for_everyone()  # the others may read and write where that is done
        self._lost.clear()
        if self.args.rollout_log:
            self._rollouts = self._open_rollout_log()

    def _open_rollout_log(self) -> RolloutLog:
        """The log of this process, which goes on from what the main process finds in the folder."""
        processes = PartialState()
        logged = [LoggedSteps.of(self.run) if processes.is_main_process else None]
        broadcast_object_list(logged)
        return RolloutLog(
            self.run,
            self.args.rollout_log_max_rows,
            process=processes.process_index,
            world=processes.num_processes,
            logged=logged[0],
        )

    def _go_on(self, step: int) -> None:
        """Forget what a resumed run does again, and tell what it learns by otherwise now."""
        run = self.run
        if run.is_used and run.environment().get("run") not in (None, self.run_id):
            raise InvalidInputError(
                f"the checkpoint is of another run than the one recorded in {run.path}: resume from"
                " one of that run's, or train into another output_dir"
            )
        run.truncate_after(step)

        path = run.path / "config.yaml"
        if not path.is_file():
            return
        changed = changes(run.config(), plain(self.config))
        if changed:
            path.rename(path.with_name(f"config-until-{step}.yaml"))
            logger.warning(
                "%s goes on after step %d with other settings, and keeps the earlier config: %s",
                run.path,
                step,
                listed([str(change) for change in changed]),
            )

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Write the metrics of a step or of an evaluation, and not TRL's totals at the end."""
        logs = logs or {}
        is_step = "pods/training_seconds" in logs
        is_evaluation = any(name.startswith("eval_") for name in logs)
        if state.is_world_process_zero and (is_step or is_evaluation):
            with self._going_on_without("metrics", state.global_step):
                self.run.append_metrics({"step": state.global_step, **logs})

    def record(self, selected: KeptRows, advantages_P_N: np.ndarray, tokenizer: Any) -> None:
        """Have a generation's rollouts written, of those that this process generated."""
        if self._rollouts is None:
            return
        groups = len(selected.kept_P_N)
        generated = int(selected.rollouts.generated_P_N.sum())
        if self._token_ends is None and self.args.rollout_log_tokens:
            self._token_ends = TokenEnds(tokenizer)
        columns = rollout_columns(
            selected,
            advantages_P_N,
            tokenizer,
            data_columns=self.args.rollout_log_columns,
            token_ends=self._token_ends,
            images=self.args.rollout_log_images,
        )
        step = selected.rollouts.step + 1
        with self._going_on_without("rollouts", step):
            self._rollouts.write(step, columns, groups=groups, rollouts=generated)

    def flush(self) -> None:
        """Wait until this process's rollouts are on disk, as they must be at a checkpoint."""
        if self._rollouts is not None:
            with self._going_on_without("rollouts"):
                self._rollouts.flush()

    @contextmanager
    def _going_on_without(self, what: str, step: int | None = None) -> Iterator[None]:
        """Inside, a record that can't be written, as on a full disk, does not end the run.

        It is said once what is lost: training is worth more than its log, and a checkpoint that
        can't be written is an error of its own.
        """
        try:
            yield
        except (RecordError, OSError) as error:
            if what not in self._lost:
                self._lost.add(what)
                since = "" if step is None else f" from step {step} on"
                logger.error(
                    "%s%s are not recorded any more, and training goes on: %s (%s)",
                    what,
                    since,
                    error,
                    self.run.path,
                )

    def finish(self, steps: int, training_seconds: float) -> None:
        """Write that the run is complete, once it is on all processes."""
        self.flush()
        processes = PartialState()
        processes.wait_for_everyone()
        if processes.is_main_process:
            self.run.sweep()
            self.run.finish(self.config["arm"], self.config["seed"], steps, training_seconds)

    def close(self) -> None:
        """End the run on this process, complete or not: nothing that it recorded is left behind."""
        log, self._rollouts = self._rollouts, None
        if log is not None:
            log.close()
            if log.error is not None and not self._lost:
                logger.warning("some rollouts could not be written: %s", log.error)
        self.run.unlock()


#: Columns of datasets that hold the right answer, the likeliest first. TRL's own `accuracy_reward`
#: takes a "solution".
_ANSWERS = ("answer", "solution", "ground_truth", "target", "gold", "label")


def _right_answer(row: Mapping[str, Any]) -> Any:
    """The likely right answer of a dataset row; None if no column has such a name."""
    return next((row[name] for name in _ANSWERS if row.get(name) is not None), None)


#: Bounds of what is recorded of a dataset row: columns, and characters of a text.
_MOST_COLUMNS = 32
_LONGEST_TEXT = 1_000


def _data_of(row: Mapping[str, Any], chosen: list[str] | None) -> str | None:
    """The columns of a dataset row to log, as a JSON object; None if there are none.

    It has the row's texts, which are cut where they are long, numbers and truth values. The prompt
    has a column of its own.

    Args:
        row: A row of the dataset.
        chosen: The columns to record; None: the first ones that the row has.
    """
    names = [name for name in row if name != "prompt"] if chosen is None else chosen
    scalars = {name: row[name] for name in names if isinstance(row.get(name), str | int | float)}
    if not scalars:
        return None
    bounded = dict(list(scalars.items())[:_MOST_COLUMNS]) if chosen is None else scalars
    cut = {
        name: f"{value[:_LONGEST_TEXT]}..."
        if isinstance(value, str) and len(value) > _LONGEST_TEXT
        else value
        for name, value in bounded.items()
    }
    return json.dumps(plain(cut), ensure_ascii=False)


def rollout_columns(
    selected: KeptRows,
    advantages_P_N: np.ndarray,
    tokenizer: Any,
    data_columns: list[str] | None = None,
    token_ends: TokenEnds | None = None,
    images: int = 0,
) -> Callable[[], RolloutColumns]:
    """Makes the columns of the rollout log, of the rollouts that this process generated.

    What it is called with is read now, where it may change afterwards: prompts are decoded by the
    tokenizer, which is in use while a thread writes. The texts are made when it is called.

    Args:
        selected: What was generated and which of it is kept.
        advantages_P_N: The advantages that the update sees.
        tokenizer: Decodes the prompts.
        data_columns: The columns of the dataset to record; None: all that hold a scalar.
        token_ends: Finds tokens in a text, where values of tokens are logged.
        images: The images of each rollout that are logged, at most.
    """
    rollouts = selected.rollouts
    names_F = rollouts.rewards.names_F
    columns = rollouts.columns
    places = list(rollouts.places)
    n = selected.kept_P_N.shape[1]

    # Each prompt is decoded once; an environment may show another one to each rollout.
    prompts = [tuple(ids) for ids in columns["prompt_ids"] or ()]
    distinct = list(dict.fromkeys(prompts))
    decoded = tokenizer.batch_decode(distinct) if distinct else []  # else it would take it for one
    text_of_prompt = dict(zip(distinct, decoded, strict=True))

    completions = list(columns["completion"] or ())
    images_of_rows = list(columns.get("images") or [None] * len(places))
    dataset_rows = list(columns["row"] or ())
    answers = [_right_answer(row) for row in dataset_rows]
    kept = selected.kept_P_N.ravel()[places]
    advantages = np.where(kept, advantages_P_N.ravel()[places], np.nan)
    by_function_F = rollouts.by_function_P_N_F.flatten(0, 1)[places].T.tolist()
    known = {
        "group": [place // n for place in places],
        "rollout": [place % n for place in places],
        "prompt": [text_of_prompt[ids] for ids in prompts],
        "answer": [None if answer is None else str(answer) for answer in answers],
        "data": [_data_of(row, data_columns) for row in dataset_rows],
        "reward": rollouts.rewards.total_P_N.ravel()[places].tolist(),
        "kept": kept.tolist(),
        "advantage": advantages.tolist(),
        "tokens": [len(ids) for ids in columns["completion_ids"] or ()],
        **_rounds_of(rollouts),
        **({} if token_ends is None else _token_values_of(columns, token_ends)),
        **{f"rewards/{f}": rewards for f, rewards in zip(names_F, by_function_F, strict=True)},
    }

    def with_texts() -> RolloutColumns:
        texts = [text_of(completion) for completion in completions]
        turns = [turns_of(completion) for completion in completions]
        shown = {"images": list(map(LoggedImages(images).of, images_of_rows))} if images else {}
        return {**known, "completion": texts, "turns": turns, **shown}

    return with_texts


def _token_values_of(columns: Columns, token_ends: TokenEnds) -> Columns:
    """The values of the tokens of each completion, and where these end in it."""
    logprobs = columns.get("token_logprobs")
    if logprobs is None:
        return {}
    masks = columns["tool_mask"] or [None] * len(logprobs)
    ends: list[list[int] | None] = []
    for values, ids, mask, completion in zip(
        logprobs,
        columns["completion_ids"] or (),
        masks,
        columns["completion"] or (),
        strict=True,
    ):
        if values is None:
            ends.append(None)
            continue
        of_message = ids[last_message(mask)][: len(values)]
        ends.append(token_ends.of(text_of(completion), of_message))
    found: Columns = {"token_logprobs": logprobs, "token_ends": ends}
    if columns.get("token_entropies") is not None:
        found["token_entropies"] = columns["token_entropies"]
    return found


def _rounds_of(rollouts: Rollouts) -> dict[str, list[int]]:
    """The round of each rollout, from 0, where there may have been several."""
    if rollouts.round_P_N is None:
        return {}
    return {"round": rollouts.round_P_N.ravel()[list(rollouts.places)].tolist()}
