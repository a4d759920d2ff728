"""What PODSTrainer relies on inside TRL. If one of these fails, look at that place in TRL first."""

import ast
import inspect
import tomllib
from collections import deque
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
import trl
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from transformers import TrainerCallback, trainer
from trl import GRPOConfig, GRPOTrainer

import podsrl.trl
from support.agents import agent_trainer, questions

ROOT = Path(__file__).parents[2]
asks_by_argument = pytest.mark.skipif(
    Version(trl.__version__) < Version("1.15"),
    reason="before TRL 1.15 its engine is asked for self.num_generations; test_vllm shows it",
)
CHANGED = "TRL changed GRPOTrainer.{}: podsrl.trl relies on it, see results/versions.md"


def test_the_installed_trl_is_of_the_tested_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = project["optional-dependencies"]["trl"]
    (need,) = [requirement for requirement in needs if requirement.startswith("trl")]
    assert SpecifierSet(need.removeprefix("trl")).contains(trl.__version__)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_prepare_inputs", ["self", "generation_batch"]),
        ("_generate_and_score_completions", ["self", "inputs"]),
        ("_generate", ["self", "prompts"]),
        ("log", ["self", "logs", "start_time"]),
        ("_calculate_rewards", ["self", "inputs", "prompts", "completions", "completion_ids_list"]),
        ("_save_checkpoint", ["self", "model", "trial"]),
        ("_load_optimizer_and_scheduler", ["self", "checkpoint"]),
        ("_get_train_sampler", ["self", "dataset"]),
        ("_get_eval_sampler", ["self", "eval_dataset"]),
        ("_get_grad_norm", ["self", "model", "grad_norm"]),
        ("training_step", ["self", "model", "inputs", "num_items_in_batch"]),
        pytest.param(
            "_generate_single_turn",
            [
                "self",
                "prompt_ids",
                "images",
                "multimodal_fields",
                "num_generations",
                "has_tool_images",
            ],
            marks=asks_by_argument,
        ),
    ],
)
def test_the_wrapped_methods_take_what_they_took(name, expected):
    method = getattr(GRPOTrainer, name, None)
    parameters = list(inspect.signature(method).parameters) if method else "gone"
    assert parameters == expected, CHANGED.format(f"{name}: {parameters}")


def test_trl_makes_its_batch_by_the_methods_that_its_trainer_has(make_trainer):
    """podsrl puts functions in front of them, on the trainer, while TRL prepares its inputs."""
    trainer = make_trainer(None, max_steps=2, gradient_accumulation_steps=2)
    calls: list[str] = []
    for name in (
        "_prepare_inputs",
        "_generate_and_score_completions",
        "_generate",
        "_calculate_rewards",
    ):
        original = getattr(trainer, name)

        def traced(*args: Any, _original: Any = original, _name: str = name) -> Any:
            calls.append(_name)
            return _original(*args)

        setattr(trainer, name, traced)
    trainer.train()

    generation = ["_generate_and_score_completions", "_generate", "_calculate_rewards"]
    assert calls == ["_prepare_inputs", *generation, "_prepare_inputs"] * 2


_SEAM = Path(podsrl.trl.__file__).parent / "seam.py"


def private_names_of_trl() -> set[str]:
    """The attributes with an underscore that TRL's trainer has, or sets on itself."""
    source = Path(inspect.getfile(GRPOTrainer)).read_text(encoding="utf-8")
    names = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    names |= {name for cls in GRPOTrainer.__mro__ for name in vars(cls)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_one_file_alone_names_private_things_of_trl():
    theirs = private_names_of_trl()
    found = []
    for path in sorted(_SEAM.parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = None
            if isinstance(node, ast.keyword):
                name = node.arg
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self":
                name = node.attr  # what is asked of itself is podsrl's own
            elif isinstance(node, ast.Constant):
                name = node.value
            elif isinstance(node, ast.FunctionDef):
                name = node.name
            if name in theirs and path != _SEAM:
                found.append(f"{path.name}: {name}")
    assert found == []
    assert "_generate_and_score_completions" in theirs  # or nothing was looked for


def test_transformers_deletes_older_checkpoints_when_the_new_one_is_whole(
    make_trainer, monkeypatch
):
    """Its last file is trainer_state.json; a checkpoint with it and our state is whole."""
    newest_was_whole = []

    def look(output_dir: str, **which: Any) -> None:
        newest = Path(output_dir) / "checkpoint-2"
        newest_was_whole.append((newest / "trainer_state.json").is_file())

    saving_trainer = make_trainer(None, save_strategy="steps", save_steps=2, save_total_limit=1)
    monkeypatch.setattr(trainer, "rotate_checkpoints", look)
    saving_trainer.train()

    assert newest_was_whole == [True]


def test_generate_returns_eight_things_and_trl_goes_on_with_the_same_prompt_list(
    make_trainer, monkeypatch
):
    """TRL logs the prompts of this list, which PODSTrainer gives the kept rows' prompts."""
    generate = GRPOTrainer._generate
    generate_and_score = GRPOTrainer._generate_and_score_completions
    inputs_of_calls: list[list[Any]] = []
    lengths_of_outputs: list[dict[str, int]] = []

    def generate_and_drop_half(self: Any, prompts: list[Any]) -> Any:
        output = generate(self, prompts)
        assert len(output) == 8
        ids, completion_ids, tool_mask, completions, logps, extra, images, tool_images = output
        assert len(ids) == len(completion_ids) == len(completions) == len(prompts) == 8
        assert (tool_mask, logps, extra, images, tool_images) == (None, None, {}, None, [])

        (inputs,) = inputs_of_calls
        del prompts[4:]
        del inputs[4:]
        return ids[:4], completion_ids[:4], None, completions[:4], None, {}, None, []

    def remember(self: Any, inputs: list[Any]) -> Any:
        inputs_of_calls.append(inputs)
        output = generate_and_score(self, inputs)
        lengths_of_outputs.append({key: len(value) for key, value in output.items() if value.ndim})
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate", generate_and_drop_half)
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", remember)
    trainer = make_trainer(None, max_steps=1)
    trainer.train()

    (lengths,) = lengths_of_outputs
    assert lengths
    assert set(lengths.values()) == {4}
    assert len(trainer._logs["prompt"]) == 4
    assert len(trainer._logs["advantages"]) == 4


@asks_by_argument
def test_trl_asks_its_engine_for_num_generations_completions_of_a_prompt(make_trainer, monkeypatch):
    """vLLM is asked for n completions of each prompt through this argument."""
    asked = []
    original = GRPOTrainer._generate_single_turn

    def record(self: Any, prompt_ids: Any, images: Any, fields: Any, num: int, **kw: Any) -> Any:
        asked.append((len(prompt_ids), num))
        return original(self, prompt_ids, images, fields, num, **kw)

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", record)
    trainer = make_trainer(12, max_steps=1)
    trainer.train()

    assert asked == [(24, 12)]
    assert trainer.num_generations == 4


def test_what_trl_keeps_of_environments_tools_and_images(tmp_path, monkeypatch):
    """Per rollout: environments, their names and tool dictionaries; images replace the dataset's.

    TRL reads the names after `_generate`, the others in it and in `_calculate_rewards` only.
    """
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    generate = GRPOTrainer._generate

    def generate_and_check(self: Any, prompts: list[Any]) -> Any:
        for name in (
            "environments",
            "_batch_environments",
            "_sync_tool_dicts",
            "_async_tool_dicts",
        ):
            assert len(getattr(self, name)) == 8, name

        output = generate(self, prompts)
        _, completion_ids, tool_masks, completions, *_, images, tool_images = output
        assert len(tool_masks) == 8
        assert images is None
        assert tool_images == [[]] * 8  # a list for each row

        rewards = self._calculate_rewards([{}] * 8, prompts, completions, completion_ids)
        assert rewards.flatten().tolist() == [2.0] * 8

        # no longer needed: the update works without them
        for name in ("environments", "_sync_tool_dicts", "_async_tool_dicts"):
            setattr(self, name, None)
        return output

    def two_each(self: Any, inputs: list[Any], *args: Any) -> torch.Tensor:
        return torch.full((len(inputs), 1), 2.0)

    class Environment:
        def reset(self, **kwargs: Any) -> str:
            return "observed"

        def get_reward(self) -> float:
            return 1.0

        def act(self) -> str:
            """Act."""
            return "acted"

    monkeypatch.setattr(GRPOTrainer, "_generate", generate_and_check)
    monkeypatch.setattr(GRPOTrainer, "_calculate_rewards", two_each)
    factories = {"one": Environment}
    trainer = agent_trainer(
        None,
        tmp_path,
        lambda read, row: "done",
        environment_factory=factories,
        max_steps=1,
        train_dataset=questions(environment=["one"] * 8),
    )
    assert trainer.environment_factories == factories
    assert trainer.environments is None
    trainer.train()

    assert [len(pool) for pool in trainer._environment_pool.values()] == [8]
    assert all("observed" in str(prompt) for prompt in trainer._logs["prompt"])


def test_the_attributes_that_are_read_or_written_exist(make_trainer):
    trainer = make_trainer(None, max_steps=1)
    trainer.train()

    for name in (
        "num_generations",
        "num_iterations",
        "scale_rewards",
        "reward_func_names",
        "reward_weights",
        "_tokenizer",
        "_step",
        "_buffered_inputs",
        "_pending_extra_logs",
        "mask_truncated_completions",
        "tools",
        "environment_factories",
        "log_multimodal",
        "log_completions",
    ):
        assert hasattr(trainer, name), CHANGED.format(name)
    assert hasattr(trainer, "eos_token_ids") == (Version(trl.__version__) >= Version("1.15"))
    assert trainer._step == 1

    for name in ("reward", "reward_std", "frac_reward_zero_std", "rewards/digits/mean"):
        assert name in trainer.state.log_history[0]


def test_the_log_of_completions_holds_the_rows_of_a_generation(make_trainer):
    trainer = make_trainer(None, max_steps=1)
    trainer.train()

    logs = trainer._logs
    assert set(logs) >= {"prompt", "completion", "rewards", "advantages", "extra"}
    assert logs["prompt"].maxlen == trainer.args.generation_batch_size == 8
    assert logs["images"] == deque(maxlen=logs["prompt"].maxlen)

    # what is added once more, in the order of rows that moved, takes the place of TRL's
    for column in (logs["advantages"], logs["rewards"]["digits"]):
        assert column.maxlen == len(column) == 8


def test_a_step_is_timed_from_its_first_micro_batch_to_its_optimiser_before_it_is_saved(
    make_trainer, monkeypatch
):
    events: list[str] = []

    def trace(name: str) -> None:
        original = getattr(GRPOTrainer, name)

        def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
            events.append(name)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(GRPOTrainer, name, traced)

    class Trace(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            events.append("begin")

        def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
            assert "optimizer" in kwargs
            events.append("before optimiser")

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            events.append("end")

    trace("training_step")
    trace("_save_checkpoint")
    trainer = make_trainer(
        None, max_steps=1, gradient_accumulation_steps=2, save_strategy="steps", save_steps=1
    )
    trainer.add_callback(Trace())
    trainer.train()

    assert events == [
        "begin",
        "training_step",
        "training_step",
        "before optimiser",
        "end",
        "_save_checkpoint",
    ]


@pytest.mark.slow
def test_a_trainer_reads_where_to_place_the_model_while_it_is_constructed(make_trainer):
    """`PODSConfig` refuses this to other trainers; transformers lets subclasses override it."""
    reads = []

    class Watched(GRPOConfig):
        @property
        def place_model_on_device(self) -> bool | None:
            reads.append("read")
            return None

    plain = make_trainer(None)
    GRPOTrainer(
        plain.model,
        plain.reward_funcs,
        Watched(output_dir=plain.args.output_dir, use_cpu=True),
        plain.train_dataset,
        processing_class=plain.processing_class,
    )
    assert reads == ["read"]
