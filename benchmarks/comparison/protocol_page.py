"""The tables of the protocol's page, from protocol.yaml."""

from collections import Counter
from collections.abc import Callable

from benchmarks.comparison.model import at_start
from benchmarks.comparison.protocol import STAGES, Protocol
from benchmarks.comparison.questions import Questions, guessing
from benchmarks.markdown import BLOCK, table
from podslab.training.spec import parse


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
        run = next(run for run in protocol.runs if run.arm == name)
        training = parse({**protocol.settings_of(run, 1e-4), "model_name_or_path": "tiny"}).training
        generated = int(training.num_rollouts or 0)
        kept = int(training.num_generations or 0)
        rows_of_step = training.per_device_train_batch_size * training.gradient_accumulation_steps
        per_update = rows_of_step // kept
        updates = (training.steps_per_generation or 1) // training.gradient_accumulation_steps
        prompts = per_update * updates
        rows.append(
            [
                name,
                arm["words"],
                f"{generated} → {kept}",
                str(prompts),
                str(prompts * generated),
                f"{updates} x {rows_of_step}" if updates > 1 else str(rows_of_step),
                f"`{training.downsampling_rule}`" if generated != kept else "all",
                str(training.advantage_baseline) if generated != kept else "group",
            ]
        )
    heads = ["arm", "what it trains on", "n → m", "prompts of a step", "rollouts", "rows"]
    return table([*heads, "rule", "baseline"], rows)


def _stages(protocol: Protocol) -> list[str]:
    planned = Counter(run.stage for run in protocol.runs)
    cost = protocol.values["cost"]
    rows = []
    total = 0.0
    for name in STAGES:
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
    for stage in STAGES:
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
