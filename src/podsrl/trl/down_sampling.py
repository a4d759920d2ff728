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
from podsrl.trl.checks import check_rewards, checked
from podsrl.trl.clock import PhaseClock, peak_memory
from podsrl.trl.config import PODSConfig
from podsrl.trl.cost import STEPS_OF_COST, CostOfSteps
from podsrl.trl.exchange import Exchange, Round, n_of_each, pairs_of_places
from podsrl.trl.generation import Asked, Generation, KeptRows, Rollouts
from podsrl.trl.messages import logger
from podsrl.trl.one_reading import OneReading
from podsrl.trl.recorder import RunRecorder
from podsrl.trl.reporting import (
    Advice,
    Logs,
    masked_rows,
    pods_metrics,
    trl_metrics,
    with_dropped,
)
from podsrl.trl.reward_models import in_batches
from podsrl.trl.rounds import Collected
from podsrl.trl.rows import (
    OF_THE_LOG,
    Columns,
    columns_of,
    copied,
    dataset_images,
    extra_logs_of,
    filled,
    generated_for_trl,
    numbers_of,
    take_extra_logs,
)
from podsrl.trl.run_state import RunState
from podsrl.trl.seam import Changes, Host, Seam, swapped
from podsrl.trl.settings import Settings, SettingsOfTrainer
from podsrl.trl.spare_passes import PassSparing
from podsrl.trl.steady import checkpointing_paused
from podsrl.trl.step_guard import StepGuard
from podsrl.trl.token_values import TokenValues
from podsrl.trl.versions import TESTED

#: A method of TRL's, as a class or its user has it.
HostMethod = Callable[..., Any]


class DownSampling:
    """The selection of a trainer, its state and records, and the generation under way.

    Args:
        trainer: TRL's trainer, constructed.
        args: Its config.

    Attributes:
        settings: The settings of the selection, completed anew for each generation.
        state: Counters, flags and clock of the run.
        exchange: The traffic between the processes.
        recorder: The writer of the run's folder.
        advice: The warnings of likely mistakes, each said once.
        passes: The sparing of passes of rows without gradient.
        one_reading: Reads a prompt once for all its rollouts.
        token_values: Takes down the values of tokens for the log; None where none are logged.
        step_guard: Keeps a step from resting on nothing.
        checkpoints: The state that a resumed run goes on from.
        changes: The methods that a subclass or a user has put before TRL's.
        generation: The generation that TRL's method is making; None while it makes none.
        completions: The last generation for the update, kept and dropped, for TRL's table.
        traced: The same for Trackio's traces, if they are asked for.
    """

    def __init__(self, trainer: Seam, args: PODSConfig) -> None:
        self.trainer = trainer
        self.host = Host(trainer)
        self.changes = Changes.of(trainer)
        self._settings_of_trainer = SettingsOfTrainer(trainer)
        self.settings: Settings = self._settings_of_trainer.complete(self.changes)

        self.state = RunState()
        accelerator = trainer.accelerator
        self.exchange = Exchange(
            accelerator.process_index, accelerator.num_processes, accelerator.device
        )
        self._refuse_rounds_of_environments()
        self.advice = Advice()
        self._told: set[Changes] = set()
        self._tell_of_overrides()
        self.passes = PassSparing(trainer, self.state, self.exchange.world)
        self.one_reading = OneReading(self._tell_of_readings)
        self.token_values: TokenValues | None = None
        if args.rollout_log_tokens:
            self.token_values = TokenValues(args.rollout_log_tokens, self._tell_of_no_token_values)
        self.step_guard = StepGuard(trainer, self.state)

        model_name = getattr(accelerator.unwrap_model(trainer.model).config, "_name_or_path", "")
        self.recorder = RunRecorder(args, model_name, self.settings)
        self.checkpoints = Checkpoints(self)
        self.generation: Generation | None = None
        self._of_batch: list[Generation] = []  # those that were made for the batch so far
        self.completions: Logs | None = None
        self.traced: Logs | None = None
        self._checked: list[tuple[Any, Any]] = []  # each reward function, and what checks it
        self._cost = CostOfSteps()
        for callback in (self.recorder, self.state.clock, _StepMetrics(self)):
            trainer.add_callback(callback)

    def _refuse_rounds_of_environments(self) -> None:
        """Refuse rounds where an environment might have to be played twice.

        Where a process has fewer rollouts in a round than others, it generates one of its own
        again. An environment has its state, which TRL resets once, before the first round.
        """
        if self.settings.rounds is None or not self._has_environments or self.exchange.world == 1:
            return
        (name,) = set(self.settings.rounds.settings) - {"reward_bounds"}
        raise UnsupportedError(
            f"{name} works with environments on one process alone; here are {self.exchange.world}."
            " Leave it out, so that all rollouts are generated at once"
        )

    def _tell_of_overrides(self) -> None:
        """Tell once where somebody may count on rows that there are not with n > m."""
        if not self.trainer.accelerator.is_main_process or self.changes in self._told:
            return
        self._told.add(self.changes)

        selection = self.settings.selection
        batch = self.changes.makes_batch
        if selection.keeps_all or not batch:
            return

        if self.changes.scores:
            logger.warning(
                "%s is called with all %d rollouts of a prompt, and %s makes a batch of %d of them:"
                " what the first remembers for the second has other rows;"
                " self.pods.own_rows(...) takes the batch's from it",
                self.changes.scores,
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

    @property
    def prompts_of_generation(self) -> int:
        """The number of prompts of one generation, of all processes."""
        return int(self.trainer.args.generation_batch_size) // self.trainer.num_generations

    def next_step(self) -> int:
        """The optimiser step that is being generated for, from 1."""
        return int(self.trainer.state.global_step) + 1

    def group_size(self) -> int:
        """The number of rollouts of a prompt that reward functions get, one after the other."""
        # Not by `model.training`: TRL's continuous batching sets it in an evaluation, too.
        if self.generation is not None:
            return self.settings.selection.num_rollouts
        return self.trainer.num_generations_eval

    def own_rows(self, values_R: torch.Tensor) -> torch.Tensor:
        """Pick the values of this process's rows, in their order, while a batch is made.

        A subclass may remember what `_calculate_rewards` returned for all n rollouts. This picks
        from it what belongs to the m rows of `_generate_and_score_completions`.

        Args:
            values_R: A value for each rollout of all processes, gathered as TRL gathers rewards.
                It belongs to the last call of `super()._generate_and_score_completions`.
        """
        if not self._of_batch or self._of_batch[-1].kept is None:
            raise InvalidInputError(
                "own_rows was called while no batch is made: call it in"
                " _generate_and_score_completions, after super()'s"
            )
        kept = self._of_batch[-1].kept
        if kept.rollouts.round_P_N is not None:
            raise InvalidInputError(
                "own_rows was called while rollouts are generated in rounds, where"
                " _calculate_rewards is called once for each round, and no call returns what"
                " belongs to all rollouts"
            )
        of_all = Round.of_all(kept.kept_P_N.size, self.exchange.world)
        return of_all.without_padding(values_R)[kept.own_places]

    def tell_of_cost(self, step: int) -> None:
        """Say once what generating costs here, and below which worth of a step PODS can't pay."""
        selection = self.settings.selection
        self._cost.add_step(self.state)
        if step != STEPS_OF_COST or selection.keeps_all or not self._is_main:
            return
        if (told := self._cost.in_words(selection.num_rollouts, selection.num_kept)) is not None:
            logger.info("step %d: %s", step, told)

    # ---- a batch, around TRL's method and what a subclass made of it

    def make_batch(self, inputs: list[dict[str, Any]], generate_and_score: HostMethod) -> Any:
        """A batch for the update, by TRL's method as a subclass or a user has it.

        Args:
            inputs: The dataset rows that TRL gives to it.
            generate_and_score: TRL's `_generate_and_score_completions`. It comes back to
                `make_rows`, once for each of its calls of TRL's own.
        """
        self._complete_settings()
        self._of_batch = []
        try:
            with checkpointing_paused(self.trainer.model):
                batch = generate_and_score(list(inputs))
            with self.clock.phase("select"):
                return self._finish(batch)
        finally:
            self._of_batch = []

    def make_rows(self, inputs: list[dict[str, Any]], of_trl: HostMethod) -> dict[str, Any]:
        """Call TRL's own method, and give it the kept ones of n rollouts of each prompt.

        Args:
            inputs: The dataset rows, m of each prompt. They are replaced by the rows of what is
                kept, which stand beside the result.
            of_trl: TRL's own `_generate_and_score_completions`.
        """
        generation = self.generation = Generation(self._asked(inputs))
        rows = generation.asked.rows

        def kept_rows(
            generate: HostMethod, score: HostMethod, prompts: list[Any]
        ) -> tuple[tuple[Any, ...], torch.Tensor]:
            generation.kept = self._select_rollouts(generation.asked, generate, score, prompts)
            with self.clock.phase("select"):
                handed_over = self._hand_over(generation.kept, rows, prompts)
            return handed_over, generation.kept.rewards_for_trl

        try:
            # `_hand_over` may switch the log of images off, for this generation alone.
            with (
                swapped(self.trainer, log_multimodal=self.trainer.log_multimodal),
                self.host.generating(kept_rows),
            ):
                output: dict[str, Any] = of_trl(rows)
        finally:
            self.generation = None

        with self.clock.phase("select"):
            kept = self._checked_kept(generation, output)
            self._set_advantages(kept, output)
            self._describe_all(kept)
            self._count(kept)
        generation.completion_ids = output["completion_ids"]
        self._of_batch.append(generation)
        inputs[:] = rows
        return output

    def _complete_settings(self) -> None:
        """Settings that a callback has changed count from here on, and are told."""
        before = self.settings
        self.settings = self._settings_of_trainer.complete(self.changes)
        self.exchange.refuse_differences(self.settings.in_words())
        self._tell_of_overrides()
        if self.settings != before and self.state.rollouts_generated and self._is_main:
            changed = self.settings.changes_from(before)
            logger.info("step %d: from here on %s", self.next_step(), "; ".join(changed))

    def _select_rollouts(
        self, asked: Asked, generate: HostMethod, score: HostMethod, prompts: list[Any]
    ) -> KeptRows:
        """Generate and score n rollouts of each prompt, and select."""
        # Until here TRL reset environments, which is part of generating.
        self.clock.spent["generate"] += self.clock.now() - asked.began
        collected = self._generate_in_rounds(generate, score, asked, prompts)
        with self.clock.phase("select"):
            return self._select(self._know_rollouts(collected))

    def rows_with_log_probs(self) -> torch.Tensor | None:
        """The rows of this process that need log-probs of TRL now; None: all of them."""
        kept = self.generation.kept if self.generation is not None else None
        # A subclass may give other advantages to these rows, once TRL's method is done, or ask for
        # log-probs of them in another order.
        if kept is None or self.changes.makes_batch or self.changes.computes_log_probs:
            return None
        return self.passes.rows_with_log_probs(self.settings, kept)

    # ---- asked -> generated -> scored

    def _asked(self, inputs: list[dict[str, Any]]) -> Asked:
        began = self.clock.now()
        rows_of_prompt = self.trainer.num_generations
        num_prompts, rest = divmod(len(inputs) * self.exchange.world, rows_of_prompt)
        if rest or not inputs:
            raise InvalidInputError(
                f"_generate_and_score_completions was given {len(inputs)} rows on each of"
                f" {self.exchange.world} processes, and needs {rows_of_prompt} rows of each prompt,"
                " one after the other"
            )
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
        self, generate: HostMethod, score: HostMethod, asked: Asked, prompts: list[Any]
    ) -> Collected:
        """All rollouts of a generation, scored."""
        world = self.exchange.world
        n = self.settings.selection.num_rollouts
        collected = Collected(asked.num_prompts, n, self.exchange.process)
        if self.settings.rounds is None:
            of_all = Round.of_all(asked.num_prompts * n, world)
            self._generate_round(generate, score, asked, prompts, of_all, collected)
            return collected

        with self.host.engine_kept_awake(), self.one_reading.remembering():
            # Every process knows the rewards of all, so all make a round or none does.
            while (places_P_N := self._next_places(collected, asked.num_prompts)).any():
                round_ = Round.of_places(places_P_N, world)
                with self._environments_of(round_):
                    self._generate_round(generate, score, asked, prompts, round_, collected)
        return collected

    def _next_places(self, collected: Collected, prompts: int) -> np.ndarray:
        """The rollouts of the next round, shape (P, N): True where one is generated.

        None is, once everything is decided.
        """
        assert self.settings.rounds is not None
        places_P_N = self.settings.rounds.next_places(
            collected.rounds,
            self._rewards(collected) if collected.rounds else None,
            self.settings.selection,
            prompts,
            self.next_step(),
        )
        return self.exchange.of_first(places_P_N)

    def _environments_of(self, round_: Round) -> AbstractContextManager[None]:
        """Inside, TRL holds the environments of a round, and not those of all rollouts."""
        if not self._has_environments:
            return nullcontext()
        return self.host.holding_of_each_row(round_.places)  # of this process, which is alone

    def _generate_round(
        self,
        generate: HostMethod,
        score: HostMethod,
        asked: Asked,
        prompts: list[Any],
        round_: Round,
        collected: Collected,
    ) -> None:
        """Generate and score the places of a round, and collect what is known of them."""
        with self.host.leaving_out_metrics() if collected.rounds else nullcontext():
            columns = self._generate_rollouts(generate, asked, prompts, round_)
        by_function_R_F = self._score_rollouts(score, columns)
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
        self, generate: HostMethod, asked: Asked, prompts: list[Any], round_: Round
    ) -> Columns:
        """Generate the rollouts of a round with `_generate`, as columns."""
        rows = asked.rows
        n = self.settings.selection.num_rollouts
        if self._has_environments:  # then these are n of each already
            if self.settings.rounds is not None:
                rows = [rows[place] for place in round_.places]
                prompts = [prompts[place] for place in round_.places]
        else:
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
        rounds = self.settings.rounds
        if round_.is_padded or (rounds is not None and not rounds.of_whole_groups):
            n = 1
        with (
            self.clock.phase("generate"),
            self.host.asking_for(n, rows=len(rows)),
            self._reading_once(),
            self._watching_tokens(),
        ):
            columns = columns_of(list(rows), prompts, generate(prompts))
        if self.token_values is not None:
            columns |= self.token_values.columns(columns)
        return columns

    def _reading_once(self) -> AbstractContextManager[None]:
        """Inside, the model reads a prompt once for all its rollouts, where that is wanted."""
        if not self.settings.read_prompts_once or self.host.other_engine:
            return nullcontext()
        return self.one_reading.around(self.host.generating_model)

    def _watching_tokens(self) -> AbstractContextManager[None]:
        """Inside, the values of tokens are taken down while transformers generates."""
        if self.token_values is None or self.host.other_engine:
            return nullcontext()
        return self.token_values.around(self.host.generating_model)

    def _tell_of_no_token_values(self, reason: str) -> None:
        """Tell the first process's user why the rollout log has no values of tokens."""
        if self._is_main:
            logger.warning("rollout_log_tokens: none are logged, as %s", reason)

    def _tell_of_readings(self, reason: str) -> None:
        """Tell the first process's user why prompts are read by each rollout."""
        if self._is_main:
            level = logging.WARNING if self.trainer.args.read_prompts_once else logging.INFO
            logger.log(level, "each rollout reads its prompt: %s", reason)

    def _score_rollouts(self, score: HostMethod, columns: Columns) -> torch.Tensor:
        """The rewards of all processes by function, shape (R, F), as TRL gathers them."""
        n = self.settings.selection.num_rollouts
        # A reward function may change what it is given, and what was generated is trained on.
        prompts = copied(columns["prompt"])
        completions = copied(columns["completion"])
        ids = [list(tokens) for tokens in columns["completion_ids"] or ()]
        with self.clock.phase("score"), self.host.scoring(n, self._checked_functions()):
            by_function_R_F: torch.Tensor = score(columns["row"], prompts, completions, ids)
            self._check_shape(by_function_R_F, len(columns["row"] or ()))
            check_rewards(by_function_R_F, self.settings.reward_functions, self.next_step())
            return by_function_R_F

    def _checked_functions(self) -> list[Any]:
        """The trainer's reward functions of now, whose errors say where they are."""
        names = self.trainer.reward_func_names
        before = self._checked
        self._checked = []
        for place, (function, name) in enumerate(
            zip(self.trainer.reward_funcs, names, strict=True)
        ):
            if place < len(before) and before[place][0] is function:
                self._checked.append(before[place])
                continue
            in_passes = in_batches(function, self.trainer.args)
            made = checked(in_passes, name, self.next_step, self.group_size)
            self._checked.append((function, made))
        return [made for _, made in self._checked]

    def checking_reward_functions(self) -> AbstractContextManager[None]:
        """Inside, errors of reward functions say where they are, as while an evaluation scores."""
        return swapped(self.trainer, reward_funcs=self._checked_functions())

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

    def _know_rollouts(self, collected: Collected) -> Rollouts:
        """The numbers of all rollouts, as all processes know them, and this process's rollouts."""
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
        return Rollouts(
            step=self.trainer.state.global_step,
            index=self.state.generations_of_step,
            columns=columns,
            places=places,
            by_function_P_N_F=collected.by_function_P_N_F,
            rewards=self._rewards(collected),
            tokens_P_N=tokens_P_N,
            has_image_P_N=has_image_P_N.astype(bool) if has_images else None,
            round_P_N=None if settings.rounds is None else collected.round_P_N,
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
        """Mark the rollouts that TRL's loss masks whole, because they were cut off.

        Returns:
            A boolean for each rollout of `columns`; all False unless TRL masks such rollouts.
        """
        completions = columns["completion_ids"] or ()
        if not self.trainer.mask_truncated_completions:
            return np.zeros(len(completions), dtype=bool)
        ends = self.host.end_tokens
        return np.array([bool(ids) and ids[-1] not in ends for ids in completions], dtype=bool)

    # ---- selected -> handed over

    def _select(self, rollouts: Rollouts) -> KeptRows:
        """Select the rollouts to keep of all prompts; every process keeps the same."""
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
        self, kept: KeptRows, rows: list[dict[str, Any]], prompts: list[Any]
    ) -> tuple[Any, ...]:
        """The kept rows as TRL's `_generate` returns rows, and all else that TRL holds of rows."""
        generated = kept.rollouts.columns
        columns = self.exchange.to_their_rows(
            {name: values for name, values in generated.items() if name not in OF_THE_LOG},
            kept.moves,
            kept.rollouts.places,
        )
        self.host.pending_extra_logs.update(extra_logs_of(columns))

        # TRL goes on with its own lists of prompts and of dataset rows: it prepares images with
        # them, logs them, and slices the advantages by their length; a subclass reads the rows
        # beside the batch. What the dataset had is asked before its rows are replaced.
        images_in_dataset = dataset_images(rows) is not None
        prompts[:] = columns["prompt"] or ()
        rows[:] = columns["row"] or ()
        if self._has_environments:
            share = self.exchange.share(kept.kept_P_N.size)
            indices = [place - share.start if place in share else None for place in kept.own_places]
            self.host.keep_of_each_row(indices, columns["environment_name"])
        if kept.some_processes_lack_images:
            self.trainer.log_multimodal = False  # TRL's log of images would wait for all processes
        return generated_for_trl(columns, images_in_dataset)

    # ---- finished

    def _checked_kept(self, generation: Generation, output: dict[str, Any]) -> KeptRows:
        """The kept rows, after a check that TRL has gone on with them."""
        kept = generation.kept
        if kept is None:
            raise UnsupportedError(
                "this version of TRL does not generate by _generate; podsrl was tested with"
                f" {TESTED}"
            )
        rows = len(kept.own_places)
        if len(output["prompt_ids"]) != rows or len(output["advantages"]) != rows:
            raise UnsupportedError(
                f"TRL made {len(output['prompt_ids'])} rows and {len(output['advantages'])}"
                f" advantages of {rows} kept rollouts: either a subclass's _generate returns other"
                " rows than it is given prompts, or this version of TRL is none that podsrl was"
                f" tested with ({TESTED})"
            )
        return kept

    def _set_advantages(self, kept: KeptRows, output: dict[str, Any]) -> None:
        """Put the advantages into TRL's batch and log, before a subclass looks at them.

        They are TRL's own where it computes what is asked for. TRL was given the kept rewards
        ascending by place. Where rows moved, its rows are in another order, and so must be the
        advantages.
        """
        has_moved = bool(kept.moves.moved)
        if self.settings.has_own_advantages and self.changes.makes_batch_behind:
            self._refuse_advantages_of_others(output["advantages"])
        advantages_K = kept.selected.advantages_P_N[kept.kept_P_N]
        if self.settings.has_own_advantages:
            output["advantages"] = kept.own_advantages
        elif has_moved:
            by_place_K = self.trainer.accelerator.gather(output["advantages"])
            advantages_K = by_place_K.double().cpu().numpy()
            first_row = self.exchange.process * len(output["advantages"])
            own_rows = slice(first_row, first_row + len(output["advantages"]))
            output["advantages"] = by_place_K[kept.kept_of_rows[own_rows]]

        # TRL's logs hold as many rows as a generation has, so that new ones push out the others.
        logs = self.host.logs
        if self.settings.has_own_advantages or has_moved:
            logs["advantages"].extend(advantages_K[kept.kept_of_rows].tolist())
        if has_moved:
            rewards_F_K = kept.rewards_for_trl[kept.kept_of_rows].T.tolist()
            for name, rewards_K in zip(self.settings.reward_functions, rewards_F_K, strict=True):
                logs["rewards"][name].extend(rewards_K)

    def _refuse_advantages_of_others(self, advantages_K: torch.Tensor) -> None:
        """Refuse advantages that somebody made in TRL's class, where podsrl's replace them.

        TRL has logged its own last, those of all processes.
        """
        rows = len(advantages_K)
        own = slice(self.exchange.process * rows, (self.exchange.process + 1) * rows)
        of_trl = list(self.host.logs["advantages"])[-rows * self.exchange.world :][own]
        if not torch.equal(advantages_K, torch.tensor(of_trl).to(advantages_K)):
            raise UnsupportedError(
                f"{self.changes.makes_batch_behind} changes the advantages, and PODSTrainer would"
                " replace them by its own, since the method stands on TRL's class, behind"
                " podsrl's: put it on a class of yours, class Mine(PODSTrainer)"
            )

    def _describe_all(self, kept: KeptRows) -> None:
        """Let TRL's own metrics of rewards, just logged, describe all n rollouts."""
        if self.settings.keeps_all:
            return  # every value stays TRL's own
        for name, value in trl_metrics(kept.rollouts, self.settings).items():
            self.host.metrics[name][-1] = value

    def _finish(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Log what a batch is trained with, after a subclass has seen it, and take out rows."""
        self.completions = None
        self.state.batch_is_scored = False
        first = 0
        for kept in self._kept_of(batch):
            rows = slice(first, first + len(kept.own_places))
            first = rows.stop
            self._log_kept(kept, batch, rows)
        return self.passes.shorten(self.settings, batch)

    def _kept_of(self, batch: dict[str, Any]) -> list[KeptRows]:
        """The kept rows of a batch: of one generation, or of all one after the other."""
        kept = [generation.kept for generation in self._of_batch if generation.kept is not None]
        who = self.changes.makes_batch or "TRL's method"
        if not kept:
            raise UnsupportedError(
                f"{who} made a batch without PODSTrainer's own, so nothing was selected: call"
                " super()._generate_and_score_completions(...) in it"
            )

        rows = len(batch["prompt_ids"])
        advantages = batch["advantages"]
        its_own = [
            generation.kept
            for generation in self._of_batch
            if generation.kept is not None and generation.completion_ids is batch["completion_ids"]
        ]
        for found in (its_own, kept[-1:], kept):
            if found and len(advantages) == rows == sum(len(one.own_places) for one in found):
                return found
        raise UnsupportedError(
            f"{who} returned {rows} rows and {len(advantages)} advantages, and"
            f" {len(kept[-1].own_places)} rows of this process are kept; leave their number as it"
            " is. A row of advantage 0 has no pass anyway"
        )

    def _log_kept(self, kept: KeptRows, batch: dict[str, Any], rows: slice) -> None:
        """Log what is kept of one generation, with the advantages that the batch has for it."""
        advantages_P_N = self._advantages_of(kept, batch, rows)
        metrics = self._log_metrics(kept, advantages_P_N, batch)
        self.state.batch_is_scored |= not bool(np.isnan(kept.rollouts.rewards.total_P_N).all())
        self.recorder.record(kept, advantages_P_N, self.host.tokenizer)
        needs_table = self.trainer.log_completions and not self.settings.keeps_all
        if needs_table or self.trainer.args.log_traces:
            logs = with_dropped(self.host.logs, kept, self.host.tokenizer)
            self.completions = logs if needs_table else None
            self.traced = logs if self.trainer.args.log_traces else None
        if self.trainer.accelerator.is_main_process:
            self.advice.look(kept, metrics)

    def _advantages_of(self, kept: KeptRows, batch: dict[str, Any], rows: slice) -> np.ndarray:
        """The advantages that the update is made with, shape (P, N); 0 where nothing is kept.

        Where a subclass gives each token its own, a row has their mean over the tokens that count.
        """
        own_K = batch["advantages"][rows]
        if own_K.dim() > 1:
            counts = batch["completion_mask"][rows].bool()
            own_K = (own_K * counts).sum(dim=1) / counts.sum(dim=1).clamp(min=1)
        by_row_K = self.trainer.accelerator.gather(own_K)

        # Every process knows podsrl's own, and more precisely.
        own_P_N = kept.selected.advantages_P_N
        expected_K = torch.from_numpy(own_P_N.ravel()[kept.moves.places]).to(by_row_K)
        if self.settings.has_own_advantages and torch.equal(by_row_K, expected_K):
            return own_P_N

        advantages_P_N = np.zeros(kept.kept_P_N.shape)
        advantages_P_N.ravel()[kept.moves.places] = by_row_K.tolist()
        return advantages_P_N

    def _log_metrics(
        self, kept: KeptRows, advantages_P_N: np.ndarray, batch: dict[str, Any]
    ) -> dict[str, float]:
        logged = self.host.metrics
        metrics = pods_metrics(kept, advantages_P_N)
        if "importance_sampling_ratio" in batch:  # of vLLM's log-probs
            masked = self.trainer.accelerator.gather(masked_rows(batch)).sum()
            metrics["pods/masked_rows"] = float(masked)
        for name, value in metrics.items():
            logged[name].append(value)
        return metrics

    def _count(self, kept: KeptRows) -> None:
        state = self.state
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
        self._pods.advice.end_step(int(state.global_step))
        self._pods.tell_of_cost(int(state.global_step))
