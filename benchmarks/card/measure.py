"""What the cases do, each in a process of its own that appends its lines to the raw file."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl.generation import vllm_generation

from benchmarks.card.plan import (
    SMOLLM2,
    STEPS,
    WARM_UP_STEPS,
    Case,
    Comparison,
    Peak,
    Training,
    TwoProcesses,
)
from benchmarks.card.stories import Stories
from benchmarks.folders import ROOT
from benchmarks.sizes.measure import ADAPTERS, RandomRewards, settings_of_steps
from benchmarks.sizes.measure import measure as measure_step
from benchmarks.sizes.models import make_model, make_prompts, make_tokenizer
from benchmarks.sizes.raw_file import append
from benchmarks.sizes.shapes import PROMPT_TOKENS, SHAPES
from benchmarks.sizes.steps import VLLM
from benchmarks.sizes.vllm_generation import MEMORY_SHARE, graphs_of, write_configuration
from benchmarks.speed.resources import timed
from podslab.comparison.comparison import ComparisonSpec, Shard, open_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.comparison.run_comparison import compare, failures
from podslab.engine.pool import Job, Watcher
from podslab.evaluation.records import evaluations
from podslab.models import smollm2
from podslab.training.config_file import read_config
from podsrl.trl import PODSConfig, PODSTrainer
from podsrl.trl.clock import now
from podsrl.trl.seam import swapped

#: Appends the line of a case: what was found, as plain values.
Note = Callable[[Case, Mapping[str, Any]], None]

STORIES = ROOT / "benchmarks" / "card" / "stories.yaml"
_PROMPTS = 64
#: Tokens of a story with its questions, at most.
_STORY_TOKENS = 256


@dataclass(frozen=True)
class Limits:
    """What a case may use.

    Args:
        folder: A folder of its own, which stays.
        seconds: After so many a case that can go on next time stops by itself.
    """

    folder: Path
    seconds: float


def measure(
    cases: Sequence[Case], raw: Path, noted: Mapping[str, Any], folder: Path, seconds: float
) -> None:
    """Measure cases that share a process, and append the line of each as soon as it is made.

    Args:
        cases: They are of one kind.
        raw: The raw file.
        noted: The further entries of each line.
        folder: A folder of theirs, which stays.
        seconds: After so many a case that can go on next time stops by itself.

    Raises:
        Exception: A case failed; those before it are in the file.
    """
    began = time.monotonic()

    def note(case: Case, found: Mapping[str, Any]) -> None:
        nonlocal began
        command = multiprocessing.parent_process()
        if command is not None and not command.is_alive():
            sys.exit("the command was killed, and another may be at work on the file by now")
        ended = time.monotonic()
        took = round(ended - began, 1)
        append(raw, {"case": case.as_json(), "found": found, "took_seconds": took, **noted})
        began = ended

    _MEASURES[cases[0].kind](cases, note, Limits(folder, seconds))


# ---- a whole trainer


def train(cases: Sequence[Training], note: Note, limits: Limits) -> None:
    """Train with the rollouts of one case after the other, in one run of one trainer.

    Each case has a step that warms up, and some that are measured. Rewards are random, and
    completions have exactly as many tokens as the cases say.
    """
    first = cases[0]
    device = _device()
    by_vllm = first.engine == VLLM

    with tempfile.TemporaryDirectory() as folder:
        parts = _parts_of(first.model, Path(folder), device)
        engine = {**parts.engine, "compilation_config": graphs_of(case.n for case in cases)}
        with _engine_with(engine) if by_vllm else nullcontext():
            trainer = PODSTrainer(
                parts.model,
                RandomRewards(),
                _config(cases, folder, device),
                parts.prompts,
                processing_class=parts.tokenizer,
                peft_config=parts.adapters,
            )
        watch = EngineWatch(trainer.vllm_generation) if by_vllm else None
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_CasesInTurn(cases, note, watch))
        trainer.train()


@dataclass(frozen=True)
class _Parts:
    """What a trainer is made of, and the options of its engine that depend on the model."""

    model: Any
    tokenizer: Any
    prompts: Dataset
    adapters: LoraConfig | None
    engine: dict[str, Any]


def _parts_of(model: str, folder: Path, device: str) -> _Parts:
    """SmolLM2 with its weights, which are all trained, or random ones of a shape, with adapters.

    Raises:
        MissingDependencyError: The weights of SmolLM2 are not installed.
    """
    engine = {"dtype": "bfloat16"}
    if model == SMOLLM2:
        path = smollm2.get_model()
        task = Stories()
        return _Parts(
            model=AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32),
            tokenizer=AutoTokenizer.from_pretrained(path, padding_side="left"),
            prompts=Dataset.from_list(
                [{"prompt": task.prompt(row)} for row in task.load("train")[:_PROMPTS]]
            ),
            adapters=None,
            engine=engine,
        )

    # An engine reads the shape and the tokenizer, begins with weights of its own, and is sent those
    # of the model before it generates.
    shape = SHAPES[model]
    tokenizer = make_tokenizer(shape)
    tokenizer.save_pretrained(folder)
    write_configuration(model, folder)
    made = make_model(shape, device, torch.bfloat16 if device == "cuda" else torch.float32)
    made.name_or_path = str(folder)
    return _Parts(
        model=made,
        tokenizer=tokenizer,
        prompts=make_prompts(_PROMPTS),
        adapters=copy(ADAPTERS),  # PEFT writes the model's name into it
        engine={**engine, "load_format": "dummy"},
    )


def _engine_with(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Inside, TRL makes its engine with further options, for which it has no fields."""
    return swapped(vllm_generation, LLM=partial(vllm_generation.LLM, **options))


def _config(cases: Sequence[Training], folder: str, device: str) -> PODSConfig:
    """The settings of the trainer; its engine has room for the most rollouts of any case."""
    first = cases[0]
    by_vllm = first.engine == VLLM
    prompt_tokens = _STORY_TOKENS if first.model == SMOLLM2 else PROMPT_TOKENS
    exactly = {"ignore_eos": True} if by_vllm else {"min_new_tokens": first.answer}
    return PODSConfig(
        folder,
        num_rollouts=max(case.n for case in cases),
        num_generations=first.m,
        per_device_train_batch_size=first.m,
        gradient_accumulation_steps=1,
        max_completion_length=first.answer,
        generation_kwargs=exactly,
        use_vllm=by_vllm,
        vllm_mode="colocate",
        vllm_enable_sleep_mode=True,
        vllm_gpu_memory_utilization=MEMORY_SHARE,
        vllm_max_model_length=prompt_tokens + first.answer,
        max_steps=STEPS * len(cases),
        **settings_of_steps(device),
    )


class EngineWatch:
    """The calls by which a colocated engine sleeps, wakes and gets its weights, in a step.

    Args:
        generation: TRL's object that has the engine.
    """

    def __init__(self, generation: Any) -> None:
        self._seconds: dict[str, float] = {}
        self._calls: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        watched = (
            (generation, "sync_weights"),
            (generation.llm, "wake_up"),
            (generation.llm, "sleep"),
        )
        for owner, name in watched:
            setattr(owner, name, partial(self._call, name, getattr(owner, name)))

    def end_step(self) -> dict[str, Any]:
        """The calls of the step, their seconds, and the bytes of the card before and in sleep.

        Sending the weights wakes their part of the engine, and its seconds contain those.
        """
        found = {"calls": self._calls, "seconds": self._seconds, "card_bytes": self._bytes}
        self._calls, self._seconds, self._bytes = {}, {}, {}
        return found

    def _call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._calls[name] = self._calls.get(name, 0) + 1
        if name == "sleep":
            self._note_bytes("awake")
        with timed(self._seconds, name, clock=now):
            result = method(*args, **kwargs)
        if name == "sleep":
            self._note_bytes("asleep")
        return result

    def _note_bytes(self, when: str) -> None:
        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            self._bytes[when] = total - free


@dataclass
class _CasesInTurn(TrainerCallback):
    """Sets the rollouts of the case whose turn it is, and notes a case after its last step."""

    cases: Sequence[Training]
    note: Note
    watch: EngineWatch | None
    steps: list[dict[str, Any]] = field(default_factory=list)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Set the rollouts of the step."""
        case = self.cases[state.global_step // STEPS]
        args.num_rollouts = case.n
        args.read_prompts_once = case.once

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note what the step's metrics say."""
        logs = kwargs["logs"]
        if "pods/training_seconds" not in logs:  # the summary of the run
            return
        self.steps.append(self._step_of(logs))
        if len(self.steps) < STEPS:
            return

        case = self.cases[(state.global_step - 1) // STEPS]
        warm_up, measured = self.steps[:WARM_UP_STEPS], self.steps[WARM_UP_STEPS:]
        self.steps = []
        self.note(case, {"engine": case.engine, "steps": measured, "warm_up": warm_up})

    def _step_of(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of a step, by the names under which they are logged."""
        names = [name for name in logs if name.startswith("pods/seconds_")]
        names += ["step_time", "pods/peak_memory", "completions/mean_length"]
        # The log-probs of vLLM's engine differ from the model's by rounding, if it has its weights.
        names += [name for name in logs if name.startswith("sampling/")]
        step = {name: logs[name] for name in names}
        return step if self.watch is None else {**step, "engine": self.watch.end_step()}


# ---- the peak of an update


def measure_peaks(cases: Sequence[Peak], note: Note, limits: Limits) -> None:
    """Measure the peak memory of the update; on a CPU nothing says it, and seconds are left."""
    for case in cases:
        note(case, measure_step(case.step, PROMPT_TOKENS))


# ---- methods by the clock


class _TimeIsOverError(Exception):
    """The time of a comparison is over."""


class _UntilTimeIsOver(Watcher):
    """Ends a comparison when its time is over; a run that is at work begins anew next time."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def starts(self, job: Job, others: int) -> None:
        print(f"{job.name} starts, {others} others wait", flush=True)

    def looks(self, at_work: Sequence[Job]) -> None:
        if at_work and time.monotonic() > self._ends:
            raise _TimeIsOverError


def compare_methods(cases: Sequence[Comparison], note: Note, limits: Limits) -> None:
    """Train and evaluate the arms of stories.yaml, as `pods compare --config` does.

    Raises:
        RuntimeError: Every run failed.
    """
    (case,) = cases
    config = read_config(str(STORIES))
    if case.is_small:
        config = _with_few_steps(config)
    config["output_dir"] = str(limits.folder / "stories")
    spec = open_comparison(parse_comparison(config, "stories"))

    failed: list[str] = []
    is_over = False
    try:
        outcome = compare(spec, Shard(), _UntilTimeIsOver(limits.seconds))
        failed = failures(outcome.failed)
    except _TimeIsOverError:
        is_over = True

    runs = _runs_of(spec)
    if failed and not runs:
        raise RuntimeError("; ".join(failed))
    note(case, {"runs": runs, "failed_runs": failed, "unfinished": is_over})


def _with_few_steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same arms with the laboratory's embedded model on a CPU, in two steps each."""
    settings = {
        **config["settings"],
        "model_name_or_path": "tiny",
        "tiny_options": read_config("demo")["settings"]["tiny_options"],
        "evaluation_problems": 2,
        "evaluation_repeats": 1,
        "use_cpu": True,
        "bf16": False,
    }
    few = {"budget": {"steps": 2}, "evaluations": 1, "seeds": config["seeds"][:1]}
    return {**config, "settings": settings, **few}


def _runs_of(spec: ComparisonSpec) -> dict[str, Any]:
    """The finished runs by name: right answers by seconds of training, and what they did."""
    runs = {}
    for key in spec.runs():
        folder = spec.run_folder(key)
        if folder.finished() is None:
            continue
        points = evaluations(folder)
        runs[key.name] = {
            "training_seconds": [point.training_seconds for point in points],
            "right": [fmean(point.answer_accuracy) for point in points],
            "steps": [point.step for point in points],
            "rollouts": points[-1].rollouts_generated,
            "rows_passed": points[-1].rows_passed,
        }
    return runs


# ---- two processes on a card


def run_two_processes(cases: Sequence[TwoProcesses], note: Note, limits: Limits) -> None:
    """Train by two processes on one card, over NCCL if it allows that, else over gloo.

    Raises:
        RuntimeError: Neither worked; the message says why.
    """
    (case,) = cases
    backends = ("nccl", "gloo") if _device() == "cuda" else ("gloo",)
    refused: dict[str, str] = {}
    for backend in backends:
        try:
            found = _torchrun(backend, case.steps, limits.seconds / len(backends))
        except RuntimeError as error:
            refused[backend] = str(error)
            continue
        note(case, {"worked": backend, "refused": refused, **found})
        return
    raise RuntimeError(f"neither worked: {refused}")


def _torchrun(backend: str, steps: int, seconds: float) -> dict[str, Any]:
    """What `benchmarks.card.two_processes` found.

    Raises:
        RuntimeError: A process failed, or the seconds were over.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc_per_node", "2", "-m", "benchmarks.card.two_processes"]
        command += [folder, backend, str(steps), _device()]
        # In a session of its own, so that its processes end with it.
        process = subprocess.Popen(command, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise RuntimeError(f"stopped after {seconds:.0f} s") from error

        if status:
            why = [file.read_text() for file in sorted(Path(folder).glob("error-*"))]
            raise RuntimeError("; ".join(why) or f"torchrun ended with {status}")
        found: dict[str, Any] = json.loads(Path(folder, "found.json").read_text())
        return found


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


_MEASURES: dict[str, Callable[..., None]] = {
    Training.kind: train,
    Peak.kind: measure_peaks,
    Comparison.kind: compare_methods,
    TwoProcesses.kind: run_two_processes,
}
