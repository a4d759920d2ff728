"""The tables of the protocol's page, from protocol.yaml."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.comparison.model import at_start
from benchmarks.comparison.protocol import Protocol
from benchmarks.comparison.questions import Questions, guessing
from benchmarks.markdown import BLOCK, table
from podslab.training.spec import parse


class StepOfArm(NamedTuple):
    """What a step of an arm generates, and what it trains on.

    Args:
        generated, kept: The rollouts of a prompt, and how many of them are rows of an update.
        rows: Those of an update.
        updates: How many are made of what is generated at once.
        rule, baseline: How rows are chosen, and what their advantages are relative to.
    """

    generated: int
    kept: int
    rows: int
    updates: int
    rule: str
    baseline: str

    @property
    def prompts(self) -> int:
        """The prompts whose rollouts are generated at once."""
        return self.rows // self.kept * self.updates

    @property
    def rollouts(self) -> int:
        """The rollouts that are generated at once."""
        return self.prompts * self.generated


def step_of(protocol: Protocol, arm: str) -> StepOfArm:
    """A step of an arm, by the settings of its first run."""
    run = next(run for run in protocol.runs if run.arm == arm)
    training = parse({**protocol.settings_of(run, 1e-4), "model_name_or_path": "tiny"}).training
    accumulated = training.gradient_accumulation_steps
    return StepOfArm(
        generated=int(training.num_rollouts or 0),
        kept=int(training.num_generations or 0),
        rows=training.per_device_train_batch_size * accumulated,
        updates=(training.steps_per_generation or 1) // accumulated,
        rule=str(training.downsampling_rule),
        baseline=str(training.advantage_baseline),
    )


def fill(page: str, protocol: Protocol) -> str:
    """The text of the page with its tables made anew."""
    return BLOCK.sub(
        lambda match: match[1] + "\n".join(_TABLES[match[2]](protocol)) + "\n" + match[3], page
    )


def _sets(protocol: Protocol) -> list[str]:
    rows = []
    for name, own in protocol.sets.items():
        task = Questions(kinds=own["kinds"], **protocol.values["questions"])
        guessed = guessing(task, "test")
        shown = []
        for kind in own["kinds"]:
            row = next(row for row in task.load("test") if row["kind"] == kind)
            shown.append(f"{kind}: `{row['question']}` → `{row['answer']}`")
        start = at_start().get(name)
        measured = ["not measured"] * 3
        if start is not None:
            measured = [
                f"{start['sampled']:.0%}",
                f"{start['greedy']:.0%}",
                f"{start['tokens']:.0f}",
            ]
        rows.append(
            [
                name,
                "; ".join(shown),
                *measured,
                f"{guessed['constant']:.1%}",
                f"{guessed['informed']:.1%}",
            ]
        )
    heads = ["set", "kinds, each with a test question", "samples right", "greedy right", "tokens"]
    return table([*heads, "guessing a constant", "picking what is shown"], rows)


def _arms(protocol: Protocol) -> list[str]:
    rows = []
    for name, arm in protocol.arms.items():
        step = step_of(protocol, name)
        chooses = step.generated != step.kept
        rows.append(
            [
                name,
                arm["words"],
                f"{step.generated} → {step.kept}",
                str(step.prompts),
                str(step.rollouts),
                f"{step.updates} x {step.rows}" if step.updates > 1 else str(step.rows),
                f"`{step.rule}`" if chooses else "all",
                step.baseline if chooses else "group",
            ]
        )
    heads = ["arm", "what it trains on", "n → m", "prompts of a step", "rollouts", "rows"]
    return table([*heads, "rule", "baseline"], rows)


def _stages(protocol: Protocol) -> list[str]:
    planned = Counter(run.stage for run in protocol.runs)
    cost = protocol.values["cost"]
    rows = []
    total = 0.0
    for name in protocol.stages:
        stage = protocol.stage(name)
        hours = planned[name] * stage["seconds"] * cost["times_training"][name] / 3600
        total += hours
        seeds = stage["seeds"]
        rows.append(
            [
                name,
                ", ".join(protocol.sets_of(name)),
                str(len(protocol.arms_of(name))),
                ", ".join(f"{rate:.0e}" for rate in stage.get("rates", [])) or "the chosen one",
                f"{seeds[0]} to {seeds[-1]}",
                f"{stage['seconds']} s",
                stage["questions"],
                str(planned[name]),
                f"{hours:.1f}",
            ]
        )
    rows.append(["together", "", "", "", "", "", "", str(len(protocol.runs)), f"{total:.1f}"])
    heads = ["stage", "sets", "arms", "rates", "seeds", "training", "questions", "runs"]
    return table([*heads, "core hours, estimated"], rows)


def _measured(protocol: Protocol) -> list[str]:
    rows = []
    for stage in protocol.stages:
        for name in protocol.sets_of(stage):
            of_arms = {}
            for arm in protocol.arms_of(stage):
                schedule = protocol.schedule_of(stage, name, arm)
                shares = ", ".join(f"{share:.0%}" for share in schedule["samples_at"])
                sampled = f"{schedule['sampled_questions']} questions at {shares}"
                of_arms[arm] = sampled if shares else "none"

            every = f"every {schedule['greedy_every']} s"
            others = next(of_arms[arm] for arm in of_arms if arm != protocol.reference)
            rows.append([stage, name, every, others, of_arms[protocol.reference]])
    heads = ["stage", "set", "greedy answers, and at the start", "samples, at shares of the run"]
    return table([*heads, f"of {protocol.reference}"], rows)


_TABLES: dict[str, Callable[[Protocol], list[str]]] = {
    "sets": _sets,
    "arms": _arms,
    "stages": _stages,
    "measured": _measured,
}
