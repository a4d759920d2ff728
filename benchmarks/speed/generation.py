"""Part 4: generating many rollouts of few prompts, beside plain `model.generate`."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from benchmarks.speed.scale import Report, Scale
from benchmarks.speed.tables import Bar, Table, with_quartiles
from benchmarks.speed.timings import ratio, spread, time_in_turns
from podslab.evaluation import fast_generation as generation
from podslab.tasks import get_task
from podslab.models.tiny import TinySettings
from podslab.models.tiny import get_model

FASTER = 2.0
NAMES = {"plain": "model.generate on n copies of each prompt", "shared": "podsrl's generate"}


def measure(scale: Scale, report: Report) -> dict[str, Any]:
    """Seconds and tokens of both, in turns, for the rollouts of one training step.

    Twice: for prompts that are all as long, and for such whose answers differ in length.
    """
    settings = {
        f"sums of {columns(scale.tiny)}": scale.tiny,
        f"sums of {columns(scale.mixed)}, mixed": scale.mixed,
    }
    calls = 2 * (1 + scale.generation_rounds) * len(settings)
    done = 0

    def one_more(what: str) -> None:
        nonlocal done
        done += 1
        report(done, calls, what)

    workloads = {name: _measure(scale, tiny, one_more) for name, tiny in settings.items()}
    return {"prompts": scale.prompts, "n": scale.n, "workloads": workloads}


def columns(tiny: TinySettings) -> str:
    """The sums that a model was made for."""
    low, high = tiny.min_columns, tiny.max_columns
    return f"{low} columns" if low == high else f"{low} to {high} columns"


def _measure(scale: Scale, tiny: TinySettings, report: Callable[[str], None]) -> dict[str, Any]:
    folder = get_model(tiny)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = _prompts(scale, tiny, tokenizer)
    config = GenerationConfig(
        max_new_tokens=scale.max_completion_length * tiny.max_columns // scale.tiny.max_columns,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    tokens: dict[str, list[int]] = {name: [] for name in NAMES}

    def finish(name: str, ids: torch.Tensor) -> None:
        made = ids[:, inputs["input_ids"].shape[1] :]
        tokens[name].append(int((made != tokenizer.pad_token_id).sum()))
        report(name)

    def plain() -> None:
        finish("plain", network.generate(**inputs, generation_config=config))

    def shared() -> None:
        finish("shared", generation.generate(network, **inputs, generation_config=config))

    torch.manual_seed(0)
    seconds = time_in_turns({"plain": plain, "shared": shared}, scale.generation_rounds)
    counted = {name: made[1:] for name, made in tokens.items()}  # the first call warms up
    return {"seconds": seconds, "tokens": counted}


def _prompts(scale: Scale, tiny: TinySettings, tokenizer: Any) -> dict[str, torch.Tensor]:
    task = get_task("arithmetic", min_columns=tiny.min_columns, max_columns=tiny.max_columns)
    prompts = [task.prompt(row) for row in task.load("train")[: scale.prompts]]
    encoded = tokenizer.apply_chat_template(
        [prompt for prompt in prompts for _ in range(scale.n)],
        add_generation_prompt=True,
        padding=True,
        return_dict=True,
        return_tensors="pt",
    )
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def tabulate(measured: Mapping[str, Any]) -> list[Table]:
    """A table for each workload of what `measure` returned."""
    return [_table(measured, name, found) for name, found in measured["workloads"].items()]


def _table(measured: Mapping[str, Any], workload: str, found: Mapping[str, Any]) -> Table:
    seconds, tokens = found["seconds"], found["tokens"]
    rollouts = measured["prompts"] * measured["n"]
    rows = []
    for name, what in NAMES.items():
        rate = [count / s for count, s in zip(tokens[name], seconds[name], strict=True)]
        mean = sum(tokens[name]) / len(tokens[name]) / rollouts
        rows.append(
            [
                what,
                with_quartiles(spread(seconds[name]), " s"),
                f"{mean:.1f}",
                f"{spread(rate).median:,.0f}",
            ]
        )
    faster = ratio(seconds["plain"], seconds["shared"])
    return Table(
        f"Generation: {rollouts} rollouts, {measured['prompts']} prompts x {measured['n']},"
        f" {workload}",
        ["", "seconds", "tokens per rollout", "tokens per second"],
        rows,
        "Sampled from the embedded model at temperature 1. Tests check that the distribution is"
        " the same, and the tokens under greedy decoding.",
        [Bar.of("times faster than plain generate", faster, FASTER, at_most=False)],
    )
