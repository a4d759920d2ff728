"""Everything of podsrl's that a `PODSTrainer` has: `trainer.pods`.

It makes a batch for the update:

    asked  ->  generated  ->  scored  ->  selected  ->  handed over  ->  finished
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.hosts import first_line
from podsrl.rewards import Rewards
from podsrl.selection import select
from podsrl.trl.checkpoint import Checkpoints
from podsrl.trl.checks import check_rewards
from podsrl.trl.clock import PhaseClock, peak_memory
from podsrl.trl.config import PODSConfig
from podsrl.trl.exchange import Exchange, Round, n_of_each, pairs_of_places
from podsrl.trl.generation import Asked, Generation, KeptRows, Rollouts
from podsrl.trl.messages import logger
from podsrl.trl.one_reading import OneReading
from podsrl.trl.recorder import RunRecorder
from podsrl.trl.reporting import Advice, Logs, masked_rows, pods_metrics, trl_metrics, with_dropped
from podsrl.trl.rounds import Collected
from podsrl.trl.rows import (
    Columns,
    columns_of,
    dataset_images,
    extra_logs_of,
    filled,
    generated_for_trl,
    numbers_of,
    take_extra_logs,
)
from podsrl.trl.run_state import RunState
from podsrl.trl.seam import Host, Seam, overriding_class, swapped
from podsrl.trl.settings import Settings, SettingsOfTrainer
from podsrl.trl.spare_passes import PassSparing
from podsrl.trl.steady import checkpointing_paused
from podsrl.trl.step_guard import StepGuard

#: What TRL's method is given and what scores: the methods as the class or its user have them.
Method = Callable[..., Any]


class DownSampling:
    """How a trainer selects, what it counts and records, and the generation under way.

    Args:
        trainer: TRL's trainer, constructed.
        args: Its config.

    Attributes:
        settings: How it selects; completed anew for each generation.
        state: Counters, flags and clock of the run.
        exchange: What travels between the processes.
        recorder: What writes the run's folder.
        advice: What is likely a mistake, said once.
        passes: Which rows have a pass.
        one_reading: What reads a prompt once for all its rollouts.
        step_guard: What keeps a step from resting on nothing.
        checkpoints: What a resumed run goes on from.
        generation: How far the generation for the update is; None while there is none.
        completions: The last generation for the update, kept and dropped, for TRL's table.
    """

    def __init__(self, trainer: Seam, args: PODSConfig) -> None:
        self.trainer = trainer
        self.host = Host(trainer)
        self._settings_of_trainer = SettingsOfTrainer(trainer)
        self.settings: Settings = self._settings_of_trainer.complete()

        if self.settings.rounds is not None and (trainer.tools or self._has_environments):
            raise UnsupportedError(
                "rollouts_per_round does not work with tools or environments; leave it out, so that"
                " all rollouts are generated at once"
            )

        self.state = RunState()
        accelerator = trainer.accelerator
        self.exchange = Exchange(
            accelerator.process_index, accelerator.num_processes, accelerator.device
        )
        self.advice = Advice()
        if accelerator.is_main_process:
            self._tell_of_overrides()
        self.passes = PassSparing(self)
        self.one_reading = OneReading(self._tell_of_readings)
        self.step_guard = StepGuard(self)

        model_name = getattr(accelerator.unwrap_model(trainer.model).config, "_name_or_path", "")
        self.recorder = RunRecorder(args, model_name, self.settings)
        self.checkpoints = Checkpoints(self)
        self.generation: Generation | None = None
        self.completions: Logs | None = None
        for callback in (self.recorder, self.state.clock, _StepMetrics(self)):
            trainer.add_callback(callback)

    def _tell_of_overrides(self) -> None:
        """Tell where a subclass may count on rows that it has not got with n > m."""
        selection = self.settings.selection
        batch = overriding_class(self.trainer, "_generate_and_score_completions")
        rewards = overriding_class(self.trainer, "_calculate_rewards")
        if selection.keeps_all or not batch:
            return
        if rewards:
            logger.warning(
                "%s is called with all %d rollouts of a prompt, and %s makes a batch of %d of them:"
                " what the first remembers for the second has other rows;"
                " self.pods.own_rows(...) takes the batch's from it",
                rewards,
                selection.num_rollouts,
                batch,
                selection.num_kept,
            )
        if selection.across_prompts:
            logger.warning(
                "%s gets rows that %s keeps across prompts, so the groups of its batch differ in"
                " size: it must not cut them by num_generations",
                batch,
                selection.rule,
            )

    @property
    def clock(self) -> PhaseClock:
        """The clock of the run."""
        return self.state.clock

    def next_step(self) -> int:
        """The optimiser step that is being generated for, from 1."""
        return int(self.trainer.state.global_step) + 1

    def group_size(self) -> int:
        """How many rollouts of a prompt a reward function is given, one after the other."""
        if self.trainer.model.training:
            return self.settings.selection.num_rollouts
        return self.trainer.num_generations_eval

    def own_rows(self, values_R: torch.Tensor) -> torch.Tensor:
        """What belongs to the rows of this process, in their order, while a batch is made.

        A subclass that remembers what `_calculate_rewards` returned for all n rollouts finds here
        what of it stands beside the m rows of `_generate_and_score_completions`.

        Args:
            values_R: A value for each rollout of all processes, as TRL gathers them.
        """
        kept = self.generation.kept if self.generation is not None else None
        if kept is None:
            raise InvalidInputError(
                "own_rows was called while no batch is made: call it in"
                " _generate_and_score_completions, after super()'s"
            )
        if kept.rollouts.per_round is not None:
            raise InvalidInputError(
                "own_rows was called with rollouts_per_round, where _calculate_rewards is called"
                " once for each round, and no call returns what belongs to all rollouts"
            )
        of_all = Round.of_all(kept.kept_P_N.size, self.exchange.world)
        return of_all.without_padding(values_R)[kept.own_places]

    # ---- a batch, around TRL's method and what a subclass made of it

    def make_batch(self, inputs: list[dict[str, Any]], generate_and_score: Method) -> Any:
        """A batch for the update: TRL's method on its own rows, which we turn into the kept ones.

        With environments, which it resets first, TRL's method is given n rows of each prompt.

        Args:
            inputs: The dataset rows that TRL gives to `generate_and_score`.
            generate_and_score: TRL's `_generate_and_score_completions`, as a subclass or a user
                has it.
        """
        self._complete_settings()
        generation = self.generation = Generation(self._asked(inputs))
        try:
            # `_hand_over` may switch the log of images off, for this generation alone.
            with (
                swapped(self.trainer, log_multimodal=self.trainer.log_multimodal),
                self.host.generating(self._generate, self._calculate_rewards),
                checkpointing_paused(self.trainer.model),
            ):
                batch = generate_and_score(generation.asked.rows)
            with self.clock.phase("select"):
                return self._finish(generation, batch)
        finally:
            self.generation = None

    def _complete_settings(self) -> None:
        """Settings that a callback has changed count from here on, and are told."""
        before = self.settings
        self.settings = self._settings_of_trainer.complete()
        if self.settings != before and self.state.rollouts_generated and self._is_main:
            changed = self.settings.changes_from(before)
            logger.info("step %d: from here on %s", self.next_step(), "; ".join(changed))

    def _generate(self, generate: Method, prompts: list[Any]) -> tuple[Any, ...]:
        """Generate and score n rollouts of each prompt; return as many rows as TRL goes on with."""
        generation = self.generation
        if generation is None or generation.kept is not None:  # a subclass generates once more
            return generate(prompts)

        # Until here TRL reset environments, which is part of generating.
        self.clock.spent["generate"] += self.clock.now() - generation.asked.began
        collected, rounds = self._generate_in_rounds(generate, generation.asked, prompts)
        with self.clock.phase("select"):
            rollouts = self._know_rollouts(collected, rounds)
            generation.kept = self._select(rollouts)
            return self._hand_over(generation, generation.kept, prompts)

    def _calculate_rewards(self, calculate_rewards: Method, *args: Any, **kwargs: Any) -> Any:
        """The kept rollouts' rewards, already known, where TRL asks; else what scores."""
        generation = self.generation
        if generation is None or generation.kept is None or generation.answered:
            return calculate_rewards(*args, **kwargs)
        generation.answered = True
        return generation.kept.rewards_for_trl

    # ---- asked -> generated -> scored

    def _asked(self, inputs: list[dict[str, Any]]) -> Asked:
        began = self.clock.now()
        rows_of_prompt = self.trainer.num_generations
        num_prompts = len(inputs) * self.exchange.world // rows_of_prompt
        if self._has_environments:
            # TRL resets an environment for each row before it generates. Each rollout has its own
            # copy of the row, which its environment may change.
            pairs = self._n_of_each([(row, None) for row in inputs])
            inputs = [row for row, _ in pairs]
        return Asked(list(inputs), num_prompts, began)

    def _n_of_each(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return n_of_each(
            pairs,
            m=self.trainer.num_generations,
            n=self.settings.selection.num_rollouts,
            process=self.exchange.process,
            world=self.exchange.world,
        )

    def _generate_in_rounds(
        self, generate: Method, asked: Asked, prompts: list[Any]
    ) -> tuple[Collected, int]:
        """All rollouts of a generation, scored, and the number of rounds that they took."""
        settings = self.settings
        n = settings.selection.num_rollouts
        collected = Collected(asked.num_prompts, n, self.exchange.process)
        if settings.rounds is None:
            of_all = Round.of_all(asked.num_prompts * n, self.exchange.world)
            self._generate_round(generate, asked, prompts, of_all, collected)
            return collected, 1

        open_P = np.ones(asked.num_prompts, dtype=bool)
        made = 0
        with self.host.metrics_of_first_round():
            for some in settings.rounds.parts(n):
                # Every process knows the rewards of all, so all make this round or none does.
                round_ = Round.of_open(open_P, n, some, self.exchange.world)
                self._generate_round(generate, asked, prompts, round_, collected)
                made += 1

                rewards = self._rewards(collected)
                still_open_P = settings.rounds.open_after(
                    rewards, some.stop, settings.selection, self.next_step()
                )
                open_P = self.exchange.of_first(open_P & still_open_P)
                if not open_P.any():
                    break
        return collected, made

    def _generate_round(
        self,
        generate: Method,
        asked: Asked,
        prompts: list[Any],
        round_: Round,
        collected: Collected,
    ) -> None:
        """Generate and score the places of a round, and collect what is known of them."""
        columns = self._generate_rollouts(generate, asked, prompts, round_)
        by_function_R_F = self._score_rollouts(columns)
        with self.clock.phase("select"):
            numbers = numbers_of(columns, self._cut_off(columns))
            drops = not self.settings.keeps_all
            generated = len(columns["row"] or ())
            if self._has_environments:
                columns["environment_name"] = self.host.environment_names
            columns |= take_extra_logs(self.host.pending_extra_logs, generated, drops)
            collected.add(
                round_,
                columns,
                self.exchange.gather_numbers(numbers, round_),
                round_.without_padding(by_function_R_F),
            )

    def _generate_rollouts(
        self, generate: Method, asked: Asked, prompts: list[Any], round_: Round
    ) -> Columns:
        """What `_generate` makes of the prompts of a round, as columns."""
        rows = asked.rows
        n = self.settings.selection.num_rollouts
        if not self._has_environments:  # else these are n of each already
            pairs = pairs_of_places(
                list(zip(rows, prompts, strict=True)),
                round_.padded(self.exchange.process),
                m=self.trainer.num_generations,
                n=n,
                process=self.exchange.process,
            )
            rows = [row for row, _ in pairs]
            prompts = [prompt for _, prompt in pairs]

        # A vLLM server is asked for n of every n-th prompt of all processes. Where one of them
        # generates a rollout twice, or a round has others than n of a prompt, it is asked for one
        # of each row.
        if round_.is_padded or self.settings.rounds is not None:
            n = 1
        with (
            self.clock.phase("generate"),
            self.host.asking_for(n, rows=len(rows)),
            self._reading_once(),
        ):
            return columns_of(list(rows), prompts, generate(prompts))

    def _reading_once(self) -> AbstractContextManager[None]:
        """Inside, the model reads a prompt once for all its rollouts, where that is wanted."""
        if not self.settings.read_prompts_once or self.host.other_engine:
            return nullcontext()
        return self.one_reading.around(self.host.generating_model)

    def _tell_of_readings(self, reason: str) -> None:
        """Tell the first process's user why prompts are read by each rollout."""
        if self._is_main:
            level = logging.WARNING if self.trainer.args.read_prompts_once else logging.INFO
            logger.log(level, "each rollout reads its prompt: %s", reason)

    def _score_rollouts(self, columns: Columns) -> torch.Tensor:
        """The rewards of all processes by function, shape (R, F), as TRL gathers them."""
        with self.clock.phase("score"):
            by_function_R_F = self.host.score(
                columns["row"], columns["prompt"], columns["completion"], columns["completion_ids"]
            )
            self._check_shape(by_function_R_F, len(columns["row"] or ()))
            check_rewards(by_function_R_F, self.settings.reward_functions, self.next_step())
            return by_function_R_F

    def _check_shape(self, by_function_R_F: Any, generated: int) -> None:
        """Refuse what a subclass's `_calculate_rewards` returned, if it has another shape."""
        expected = (generated * self.exchange.world, len(self.settings.reward_functions))
        found = tuple(getattr(by_function_R_F, "shape", ()))
        if found != expected:
            raise InvalidInputError(
                f"_calculate_rewards returned shape {found}, and must return a row for each of the"
                f" {expected[0]} rollouts of all processes and a column for each of the"
                f" {expected[1]} reward functions. With n > m it is called with all n rollouts of a"
                " prompt"
            )

    def _know_rollouts(self, collected: Collected, rounds: int) -> Rollouts:
        """What all processes know of all rollouts, and this one's own."""
        settings = self.settings
        n = settings.selection.num_rollouts
        tokens_P_N, _, has_image_P_N = np.moveaxis(collected.numbers_P_N_3, -1, 0)

        columns = collected.columns
        places = collected.places
        names = self.exchange.all_names(name for name in columns if columns[name] is not None)
        columns = filled(columns, names, len(places))
        may_move = settings.selection.across_prompts or len(tokens_P_N) % self.exchange.world
        if may_move:
            self.exchange.refuse_what_cannot_move(columns, every=n)

        has_images = bool({"images", "tool_images"} & set(names))
        if has_images and settings.rounds is not None:
            raise UnsupportedError(
                "rollouts_per_round does not work with images; leave it out, so that all rollouts"
                " are generated at once"
            )
        return Rollouts(
            step=self.trainer.state.global_step,
            index=self.state.generations_of_step,
            columns=columns,
            places=places,
            by_function_P_N_F=collected.by_function_P_N_F,
            rewards=self._rewards(collected),
            tokens_P_N=tokens_P_N,
            has_image_P_N=has_image_P_N.astype(bool) if has_images else None,
            rounds=rounds,
            per_round=settings.rounds.rollouts if settings.rounds else None,
        )

    def _rewards(self, collected: Collected) -> Rewards:
        """The rewards of all rollouts so far, with what follows for selection and advantages."""
        settings = self.settings
        return Rewards(
            by_function_P_N_F=collected.by_function_P_N_F.cpu().numpy(),
            reward_weights_F=np.array(settings.reward_weights),
            selection_weights_F=np.array(settings.selection_weights),
            masked_P_N=collected.numbers_P_N_3[..., 1].astype(bool),
            names_F=settings.reward_functions,
            generated_P_N=collected.generated_P_N,
            normalises_first=settings.normalises_first,
        )

    def _cut_off(self, columns: Columns) -> np.ndarray:
        """Which rollouts TRL's loss masks whole, since they were cut off."""
        completions = columns["completion_ids"] or ()
        if not self.trainer.mask_truncated_completions:
            return np.zeros(len(completions), dtype=bool)
        ends = self.host.end_tokens
        return np.array([bool(ids) and ids[-1] not in ends for ids in completions], dtype=bool)

    # ---- selected -> handed over

    def _select(self, rollouts: Rollouts) -> KeptRows:
        """Which rollouts of all prompts are kept; the same on every process."""
        settings = self.settings
        if self.state.rollouts_generated == 0 and self._is_main:
            prompts = len(rollouts.tokens_P_N)
            rows = prompts * settings.selection.num_kept
            line = first_line(settings.selection, prompts, rows)
            logger.info(f"{line}; {settings.passes_in_words}")

        selected = select(
            settings.selection,
            rollouts.rewards,
            rollouts.step,
            rollouts.index,
            scale=settings.scale_rewards,
        )
        # A rule of the user's may draw other random numbers on each process.
        selected = replace(selected, kept_P_N=self.exchange.of_first(selected.kept_P_N))
        return KeptRows(rollouts, selected, self.exchange.process, self.exchange.world)

    def _hand_over(
        self, generation: Generation, kept: KeptRows, prompts: list[Any]
    ) -> tuple[Any, ...]:
        """The kept rows as TRL's `_generate` returns rows, and all else that TRL holds of rows."""
        columns = self.exchange.to_their_rows(
            kept.rollouts.columns, kept.moves, kept.rollouts.places
        )
        self.host.pending_extra_logs.update(extra_logs_of(columns))

        # TRL goes on with its own lists of prompts and of dataset rows: it prepares images with
        # them, logs them, and slices the advantages by their length; a subclass reads the rows
        # beside the batch. What the dataset had is asked before its rows are replaced.
        rows = generation.asked.rows
        images_in_dataset = dataset_images(rows) is not None
        prompts[:] = columns["prompt"] or ()
        rows[:] = columns["row"] or ()
        if self._has_environments:
            index_of_place = {place: index for index, place in enumerate(kept.rollouts.places)}
            indices = [index_of_place.get(place) for place in kept.own_places]
            self.host.keep_of_each_row(indices, columns["environment_name"])
        if kept.some_processes_lack_images:
            self.trainer.log_multimodal = False  # TRL's log of images would wait for all processes
        return generated_for_trl(columns, images_in_dataset)

    # ---- finished

    def set_advantages(self, batch: dict[str, Any]) -> None:
        """Put the advantages into TRL's batch and log, at the end of TRL's own method.

        They are TRL's own where it computes what is asked for. TRL was given the kept rewards
        ascending by place. Where rows moved, its rows are in another order, and so must be the
        advantages.
        """
        generation = self.generation
        if generation is None:  # an evaluation
            return
        kept = generation.kept
        if kept is None or len(batch["advantages"]) != len(batch["prompt_ids"]):
            raise UnsupportedError(
                "this version of TRL does not take the kept rows from _generate; podsrl was tested"
                " with trl>=1.9,<1.17"
            )

        has_moved = bool(kept.moves.moved)
        advantages_K = kept.selected.advantages_P_N[kept.kept_P_N]
        if self.settings.has_own_advantages:
            batch["advantages"] = kept.own_advantages
        elif has_moved:
            by_place_K = self.trainer.accelerator.gather(batch["advantages"])
            advantages_K = by_place_K.double().cpu().numpy()
            first_row = self.exchange.process * len(batch["advantages"])
            own_rows = slice(first_row, first_row + len(batch["advantages"]))
            batch["advantages"] = by_place_K[kept.kept_of_rows[own_rows]]
        generation.advantages = batch["advantages"]

        # TRL's logs hold as many rows as a generation has, so that new ones push out the others.
        logs = self.host.logs
        if self.settings.has_own_advantages or has_moved:
            logs["advantages"].extend(advantages_K[kept.kept_of_rows].tolist())
        if has_moved:
            rewards_F_K = kept.rewards_for_trl[kept.kept_of_rows].T.tolist()
            for name, rewards_K in zip(self.settings.reward_functions, rewards_F_K, strict=True):
                logs["rewards"][name].extend(rewards_K)

    def _finish(self, generation: Generation, batch: dict[str, Any]) -> dict[str, Any]:
        """After TRL's method and a subclass's: metrics over all n, the rollout log, spared rows."""
        kept = generation.kept
        if kept is None:
            raise UnsupportedError(
                f"{self._whose_method()} made a batch without calling _generate, so nothing was"
                " selected: call super()._generate_and_score_completions(...), or _generate, in it"
            )
        self._check_batch(generation, kept, batch)

        advantages_P_N = self._advantages_of(kept, batch)
        metrics = self._log_metrics(kept, advantages_P_N, batch)
        self._count(kept)
        self.recorder.record(kept, advantages_P_N, self.host.tokenizer)
        if self.trainer.log_completions and not self.settings.keeps_all:
            self.completions = with_dropped(self.host.logs, kept)
        if self.trainer.accelerator.is_main_process:
            self.advice.look(kept, metrics)
        return self.passes.shorten(generation, batch)

    def _check_batch(self, generation: Generation, kept: KeptRows, batch: dict[str, Any]) -> None:
        """Refuse a batch of a subclass's whose rows are not the kept ones."""
        rows = len(kept.own_places)
        advantages = batch["advantages"]
        if len(batch["prompt_ids"]) != rows or tuple(advantages.shape[:1]) != (rows,):
            raise UnsupportedError(
                f"{self._whose_method()} returned {len(batch['prompt_ids'])} rows and"
                f" {len(advantages)} advantages, and {rows} rows of this process are kept; leave"
                " their number as it is. A row of advantage 0 has no pass anyway"
            )
        trl_can_compute = not self.settings.has_own_advantages and not kept.moves.moved
        if generation.advantages is None and not trl_can_compute:
            raise UnsupportedError(
                f"{self._whose_method()} does not call TRL's own, so its advantages compare other"
                " rows than are kept: call super()._generate_and_score_completions(...) in it"
            )

    def _whose_method(self) -> str:
        name = "_generate_and_score_completions"
        return overriding_class(self.trainer, name) or f"the trainer's {name}"

    def _advantages_of(self, kept: KeptRows, batch: dict[str, Any]) -> np.ndarray:
        """The advantages that the update is made with, shape (P, N); 0 where nothing is kept."""
        by_row_K = self.trainer.accelerator.gather(batch["advantages"])
        if by_row_K.dim() > 1:  # a subclass's, of each token
            by_row_K = by_row_K.mean(dim=1)

        # Every process knows podsrl's own, and more precisely.
        own_P_N = kept.selected.advantages_P_N
        own_K = torch.from_numpy(own_P_N.ravel()[kept.moves.places]).to(by_row_K)
        if self.settings.has_own_advantages and torch.equal(by_row_K, own_K):
            return own_P_N

        advantages_P_N = np.zeros(kept.kept_P_N.shape)
        advantages_P_N.ravel()[kept.moves.places] = by_row_K.tolist()
        return advantages_P_N

    def _log_metrics(
        self, kept: KeptRows, advantages_P_N: np.ndarray, batch: dict[str, Any]
    ) -> dict[str, float]:
        logged = self.host.metrics
        if not self.settings.keeps_all:  # with n = m every value stays TRL's own
            for name, value in trl_metrics(kept.rollouts, self.settings).items():
                logged[name][-1] = value

        metrics = pods_metrics(kept, advantages_P_N)
        if "importance_sampling_ratio" in batch:  # of vLLM's log-probs
            masked = self.trainer.accelerator.gather(masked_rows(batch)).sum()
            metrics["pods/masked_rows"] = float(masked)
        for name, value in metrics.items():
            logged[name].append(value)
        return metrics

    def _count(self, kept: KeptRows) -> None:
        total_P_N = kept.rollouts.rewards.total_P_N
        state = self.state
        state.batch_is_scored = not bool(np.isnan(total_P_N).all())
        state.generations_of_step += 1
        state.rollouts_generated += int(kept.rollouts.generated_P_N.sum())
        state.rollouts_trained += int(kept.kept_P_N.sum())
        state.tokens_generated += int(kept.rollouts.tokens_P_N.sum())

    @property
    def _has_environments(self) -> bool:
        return self.trainer.environment_factories is not None

    @property
    def _is_main(self) -> bool:
        return self.exchange.process == 0


class _StepMetrics(TrainerCallback):
    """Logs the seconds of an optimiser step by phase and the totals so far, after its clock."""

    def __init__(self, pods: DownSampling) -> None:
        self._pods = pods

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """At the end of a step."""
        run_state = self._pods.state
        logged = self._pods.host.metrics
        for phase, seconds in run_state.clock.last_step.items():
            logged[f"pods/seconds_{phase}"].append(seconds)
        logged["pods/peak_memory"] = [float(peak_memory())]
        logged["pods/training_seconds"] = [run_state.clock.training_seconds]
        for name, total in run_state.totals().items():
            logged[f"pods/{name}"] = [float(total)]
        run_state.generations_of_step = 0
