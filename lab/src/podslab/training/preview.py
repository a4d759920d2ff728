"""A preview of a run, before it starts."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from podslab.engine.budget import NO_LIMIT
from podslab.training.spec import Spec


@dataclass(frozen=True)
class Preview:
    """The sizes of a run; a row is one completion.

    Args:
        prompts, rollouts, rows: Those of one generation.
        micro_batches: How many the rows of a generation are split into.
        updates_per_generation: The optimiser steps until new rollouts are generated.
        steps: All optimiser steps; None where they are not known.
        processes: The processes that train.
    """

    prompts: int
    rollouts: int
    rows: int
    micro_batches: int
    updates_per_generation: int
    steps: int | None
    processes: int

    @classmethod
    def of(cls, spec: Spec, dataset_rows: int | None = None) -> "Preview":
        """Derive the sizes from the settings.

        Args:
            spec: The run's settings.
            dataset_rows: Prompts in the training split, for the number of steps; None: unknown.
        """
        args = spec.training
        processes = spec.run.processes or args.world_size
        # TRL counts the rows for the processes that run now, of which a dry run has one.
        rows = int(args.generation_batch_size or 0) * processes // args.world_size
        prompts = rows // int(args.num_generations or 1)
        micro_batches = int(args.steps_per_generation or 1)
        updates = micro_batches * args.num_iterations / args.gradient_accumulation_steps

        steps: int | None = None
        if args.max_steps > 0:
            steps = args.max_steps
        elif dataset_rows is not None:
            steps = int((dataset_rows // prompts) * args.num_train_epochs * updates)

        return cls(
            prompts=prompts,
            rollouts=prompts * int(args.num_rollouts or 0),
            rows=rows,
            micro_batches=micro_batches,
            updates_per_generation=max(1, int(updates)),
            steps=steps,
            processes=processes,
        )

    def launch(self, spec: Spec, arguments: Sequence[str]) -> str:
        """The command that starts `pods train` with these arguments on the run's GPUs.

        Full-parameter training on several GPUs shards gradients and optimiser (DeepSpeed ZeRO-2).
        """
        if self.processes == 1:
            return shlex.join(["pods", "train", *arguments])
        words = ["accelerate", "launch", "--num_processes", str(self.processes)]
        if spec.training.bf16:
            words += ["--mixed_precision", "bf16"]
        if not spec.model.use_peft:
            words += ["--use_deepspeed", "--zero_stage", "2"]
        return shlex.join([*words, "-m", "podsrl.cli", "train", *arguments])

    def describe(self, spec: Spec) -> str:
        """The run as a few lines of text."""
        args = spec.training
        run = spec.run
        passes = f", {args.num_iterations} passes each" if args.num_iterations > 1 else ""
        each = f" on each of {self.processes} processes" if self.processes > 1 else ""
        options = f" {run.task_options}" if run.task_options else ""

        lines = [
            f"task        {run.task}{options}",
            f"model       {spec.model.model_name_or_path}",
            f"generate    {self.prompts} prompts x {args.num_rollouts} rollouts ="
            f" {self.rollouts} rollouts",
            f"keep        {self._kept(spec)}: the update sees {self.rows} rows",
            f"update      {_counted(self.micro_batches, 'micro-batch', 'micro-batches')} of"
            f" {args.per_device_train_batch_size} rows{each}{passes};"
            f" {_counted(self.updates_per_generation, 'optimiser step', 'optimiser steps')}"
            " per generation",
            f"length      {self._length(spec)}",
            f"evaluation  {_evaluations(spec)}",
            f"output      {args.output_dir}",
        ]
        return "\n".join(lines)

    def _kept(self, spec: Spec) -> str:
        selection = spec.training.selection()
        if selection.num_rollouts == selection.num_kept:
            return f"all {self.rollouts} rollouts (n = m: plain GRPO)"
        if selection.across_prompts:
            how = f" by {selection.rule}"
            if selection.rule == "max_contrast":
                how = ", those with most contrast"
            return f"{self.rows} of all {self.rollouts} rollouts{how}"
        return f"{selection.in_words} per prompt by {selection.rule}"

    def _length(self, spec: Spec) -> str:
        run = spec.run
        limits = {
            "s of training time": run.max_training_seconds,
            "rollouts": run.max_rollouts,
            "in price of rollouts and rows": run.max_price,
        }
        limit = ", ".join(f"{most:g} {what}" for what, most in limits.items() if most)
        if limit and (self.steps or 0) >= NO_LIMIT:
            return limit

        length = f"{spec.training.num_train_epochs:g} epoch(s)"
        if self.steps:
            length = f"{self.steps} optimiser steps"
        return f"{length}, at most {limit}" if limit else length


def _counted(number: int, one: str, several: str) -> str:
    return f"1 {one}" if number == 1 else f"{number} {several}"


def _evaluations(spec: Spec) -> str:
    run = spec.run
    if not run.evaluation_problems:
        return "none"

    what = f"{run.evaluation_problems} problems x {run.evaluation_repeats}"
    if run.evaluation_greedy:
        what += " and the likeliest answer"
    when = "before and after"
    if run.evaluations:
        when += f", at {run.evaluations} points of the budget"
    if run.evaluation_steps:
        when += f", every {run.evaluation_steps} steps"
    return f"{what} on {run.evaluation_split!r}, {when}"
