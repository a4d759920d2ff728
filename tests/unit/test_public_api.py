"""What users may rely on, with signatures: changed on purpose, with a line in CHANGELOG."""

import importlib
import inspect
from dataclasses import MISSING, fields

import pytest

import podsrl
from podsrl.errors import InvalidInputError
from podslab.tasks import Task

PUBLIC = {
    "podsrl": {
        "RULES": "dict",
        "PodsError": "type",
        "__version__": "str",
        "downsample": "(rewards_P_N, m, rule='max_variance', seed=None)",
        "downsample_batch": "(rewards_P_N, rows, seed=None)",
        "group_advantages": "(rewards_P_N, kept_P_M, baseline='kept', scale=True, eps=0.0001)",
        "register_rule": "(name, rule)",
    },
    "podsrl.downsampling": {
        "RULES": "dict",
        "Rule": "_CallableGenericAlias",
        "can_improve": "(rewards_P_N, m, reward_range, stop_at=None)",
        "downsample": "(rewards_P_N, m, rule='max_variance', seed=None)",
        "downsample_batch": "(rewards_P_N, rows, seed=None)",
        "refuse_outside": "(rewards, reward_range, step)",
        "register_rule": "(name, rule)",
        "resolve_rule": "(rule)",
    },
    "podsrl.trl": {
        "PODSConfig": "type",
        "PODSRolloutWorker": "(model, reward_funcs=None, args=None, train_dataset=None,"
        " processing_class=None, *, peft_config=None, tools=None, environment_factory=None,"
        " num_rollouts=None, rollout_log=True, rollout_log_max_rows=1000000, **options)",
        "PODSTrainer": "(model, reward_funcs=None, args=None, train_dataset=None,"
        " eval_dataset=None, **kwargs)",
    },
    "podsrl.slime": {
        "post_process_rewards": "(args, samples)",
        "select_rollouts": "(args, data)",
    },
    "podslab.tasks": {
        "TASKS": "dict",
        "Grade": "(answer, format)",
        "Task": "()",
        "declared_answer": "(text)",
        "get_task": "(name, **options)",
        "in_format": "(completion)",
        "read_jsonl": "(path, required=())",
    },
    "podsrl.verl": {},  # verl finds the plugin and its trainer modes by the entry point below
}
#: What a task of one's own gives or may replace.
TASK_METHODS = {
    "load": "(self, split, path=None)",
    "grade": "(self, completion, row)",
    "grade_batch": "(self, completions, rows)",
    "prompt": "(self, row)",
    "gold_completion": "(self, row)",
    "examples": "(self)",
    "rewards": "(self, form='wrong')",
}
#: The fields of PODSConfig that TRL's GRPOConfig has not, and their defaults.
OWN_FIELDS = {
    "num_rollouts": None,  # 4 x num_generations
    "max_num_rollouts": 128,
    "downsampling_rule": "max_variance",
    "advantage_baseline": "kept",
    "rollouts_per_round": None,
    "reward_range": None,
    "stop_at": None,
    "rollout_log": True,
    "rollout_log_max_rows": 1_000_000,
    "selection_scope": "prompt",
    "selection_weights": None,
    "training_clock": "wall",
    "fast_generation": None,
}


def described(value: object) -> str:
    """A signature without its annotations, or the type where there is none."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return type(value).__name__
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


@pytest.mark.parametrize("module", list(PUBLIC))
def test_the_public_names_and_their_signatures_are_these(module):
    if module == "podsrl.trl":
        pytest.importorskip("trl")
    found = importlib.import_module(module)
    public = {name: described(getattr(found, name)) for name in getattr(found, "__all__", ())}
    if module == "podsrl.trl":
        public["PODSConfig"] = "type"  # some 200 fields of TRL; ours are below
    assert public == PUBLIC[module]


def test_a_task_of_ones_own_has_these_methods():
    own = {n: described(f) for n, f in vars(Task).items() if inspect.isfunction(f)}
    assert {name: text for name, text in own.items() if not name.startswith("_")} == TASK_METHODS


def defaults(kind: type) -> dict[str, object]:
    return {
        f.name: f.default_factory() if f.default_factory is not MISSING else f.default
        for f in fields(kind)  # type: ignore[arg-type]
    }


def test_the_config_has_its_own_fields_and_changes_no_default_of_trl():
    trl = pytest.importorskip("trl")
    from podsrl.trl import PODSConfig

    ours, theirs = defaults(PODSConfig), defaults(trl.GRPOConfig)
    assert {name: value for name, value in ours.items() if name not in theirs} == OWN_FIELDS
    assert {name: value for name, value in ours.items() if name in theirs} == theirs


def test_four_rollouts_are_generated_for_each_that_is_kept_unless_told_otherwise(tmp_path):
    pytest.importorskip("trl")
    from podsrl.trl import PODSConfig

    given = {"output_dir": str(tmp_path), "use_cpu": True, "bf16": False}
    assert PODSConfig(num_generations=8, **given).num_rollouts == 32
    assert PODSConfig(num_generations=8, num_rollouts=8, **given).num_rollouts == 8


def test_errors_are_of_one_tree_and_those_of_arguments_are_value_errors():
    assert issubclass(InvalidInputError, podsrl.PodsError)
    with pytest.raises(podsrl.PodsError):
        podsrl.downsample([[0.0, 1.0]], m=3)


def test_verl_finds_its_plugin_by_an_entry_point_and_the_command_is_pods():
    from importlib.metadata import distribution

    points = {(p.group, p.name): p.value for p in distribution("podsrl").entry_points}
    assert points == {
        ("console_scripts", "pods"): "podsrl.cli:main",
        ("verl.plugins", "podsrl"): "podsrl.verl.plugin",
    }
