"""The fields of a run's config, checked without importing torch.

Importing TRL takes up to ten seconds, and most mistakes are a wrong name or a number out of range.
The fields are therefore read from the source files of TRL and transformers that are installed.
"""

import ast
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError, suggestion
from podsrl.cli.bounds import COUNT, POSITIVE, SHARE, Bounds
from podslab.tasks.base import FORMS

#: Classes with fields, and the files that define them; of two of one name the later one counts.
_CLASSES = (
    ("transformers", "training_args.py", "TrainingArguments"),
    ("trl", "trainer/base_config.py", "_BaseConfig"),
    ("trl", "trainer/grpo_config.py", "GRPOConfig"),
    ("trl", "trainer/model_config.py", "ModelConfig"),
    ("podsrl", "trl/config.py", "PODSConfig"),
    ("podsrl", "experiments/run_arguments.py", "RunArguments"),
)
_ENUMS = ("training_args.py", "trainer_utils.py")  # of transformers
#: What the kinds of a field are called in a message, and the types that may be given for them.
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int, str)),
    "float": ("a number", (int, float, str)),
    "bool": ("true or false", (bool, str)),
    "str": ("text", (str, dict, type(Path()))),  # options may be given as a YAML mapping
    "list": ("a list", (list,)),
    "dict": ("a mapping", (dict,)),
    "None": ("none", (type(None),)),
}
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "f", "n", "0"), False),
}


@dataclass(frozen=True)
class Field:
    """A field of one of the classes.

    kinds: "int", "float", "bool", "str", "list", "dict", "None", or the name of another type.
    choices: the words that are allowed; () for any.
    """

    name: str
    owner: str
    kinds: tuple[str, ...]
    default: Any
    help: str
    choices: tuple[str, ...] = ()


_RANGES: dict[Bounds, str] = {
    Bounds(1, also=(-1,)): "max_steps",
    Bounds(2): "num_rollouts max_num_rollouts rollouts_per_round",
    Bounds(-1): "local_rank",
    Bounds(0, also=(-1,)): "top_k",
    Bounds(0, 1, open=True): "top_p vllm_gpu_memory_utilization stop_at",
    Bounds(-math.inf): "entropy_coef entropy_coef_min entropy_coef_max",
    Bounds(0, 65535): "vllm_server_port vllm_group_port",
    SHARE: "max_unscorable min_p adam_beta1 adam_beta2 label_smoothing_factor lora_dropout"
    " top_entropy_quantile ref_model_mixup_alpha",
    POSITIVE: "max_training_seconds evaluation_seconds temperature repetition_penalty"
    " num_train_epochs adam_epsilon logging_steps save_steps eval_steps vllm_server_timeout"
    " sapo_temperature_neg sapo_temperature_pos epsilon delta",
    COUNT: "max_rollouts max_tokens processes evaluations evaluation_steps evaluation_repeats"
    " evaluation_batch_size per_device_train_batch_size per_device_eval_batch_size"
    " gradient_accumulation_steps eval_accumulation_steps max_completion_length"
    " num_generations num_generations_eval generation_batch_size steps_per_generation"
    " num_iterations rollout_log_max_rows lora_r lora_alpha torch_empty_cache_steps"
    " save_total_limit vllm_max_model_length vllm_tensor_parallel_size ddp_timeout"
    " ddp_bucket_cap_mb ref_model_sync_steps dataloader_prefetch_factor num_completions_to_print",
}
#: Ranges of numbers by field; every other number must be at least 0.
BOUNDS = {name: bounds for bounds, names in _RANGES.items() for name in names.split()}
#: Words that TRL's trainer knows, where its config has no list of them.
_WORDS: dict[str, tuple[str, ...]] = {
    "loss_type": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
    "importance_sampling_level": ("token", "sequence"),
    "scale_rewards": ("group", "batch", "none"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": (
        *("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
    ),
    "advantage_baseline": ("kept", "group"),
    "form_reward": FORMS,
    "training_clock": ("wall", "cpu"),
    "selection_scope": ("prompt", "batch"),
    "num_rollouts": ("auto",),
    "dtype": ("auto", "float32", "float16", "bfloat16"),
}


@cache
def known_fields() -> dict[str, Field]:
    """Every field that a config or a flag may set, by name.

    Raises:
        ModuleNotFoundError: TRL or transformers is not installed.
    """
    enums = dict(pair for file in _ENUMS for pair in _enums(_source("transformers", file)))
    found: dict[str, Field] = {}
    for package, file, owner in _CLASSES:
        found.update((field.name, field) for field in _fields(_source(package, file), owner, enums))
    return found


def own_fields(owner: str) -> list[Field]:
    """The fields of `RunArguments` or of `PODSConfig` itself, as their class lists them."""
    package, file, _ = next(entry for entry in _CLASSES if entry[2] == owner)
    return list(_fields(_source(package, file), owner, {}))


def refuse_unknown(
    names: Sequence[str], flags: Sequence[str] = (), also: Sequence[str] = ()
) -> None:
    """Check the names of a config's keys and of flags.

    Args:
        names: keys of a YAML mapping.
        flags: names given as --name; --no_name switches off what is on by default.
        also: names of the command's own options, for the suggestion.

    Raises:
        InvalidInputError: a name that no field has, with the nearest one that there is.
    """
    known = known_fields()
    for name in names:
        if name not in known:
            near = suggestion(name, known, "`pods train --help` lists them")
            raise InvalidInputError(f"unknown config key {name!r}; {near}")
    for flag in flags:
        name = flag.replace("-", "_")
        switched = known.get(name.removeprefix("no_"))
        switches_off = switched is not None and name.startswith("no_") and switched.default is True
        if name not in known and not switches_off:
            options = [f"--{one}" for one in (*also, *known)]
            near = suggestion(f"--{name}", options, "`pods train --help` lists them")
            raise InvalidInputError(f"unknown flag --{flag}; {near}")


def check(config: Mapping[str, Any], flags: Sequence[str] = ()) -> dict[str, Any]:
    """The value of every field: the config's and the flags' converted, the defaults of the others.

    Raises:
        InvalidInputError: an unknown name, a value of another type, a number out of its range, an
            unknown word; the message says what is allowed.
    """
    given = _of_flags(flags)
    refuse_unknown(list(config), list(given))
    known = known_fields()
    values = {name: field.default for name, field in known.items()}
    for name, value in config.items():
        values[name] = _converted(known[name], value)
    for name, words in given.items():
        if name not in known:
            name, words = name.removeprefix("no_"), ["false"]
        values[name] = _of_words(known[name], words)
    if values["model_name_or_path"] is None:
        raise InvalidInputError(
            "model_name_or_path is missing: a folder, a name on the hub, or 'tiny'"
        )
    if values["resume"] and values["overwrite"]:
        raise InvalidInputError("resume and overwrite exclude each other; set one of them")
    return values


def _of_flags(flags: Sequence[str]) -> dict[str, list[str]]:
    """{"learning_rate": ["1e-5"]} of ["--learning-rate=1e-5"]."""
    given: dict[str, list[str]] = {}
    words: list[str] = []
    for flag in flags:
        if flag.startswith("--"):
            name, equals, value = flag[2:].partition("=")
            words = given[name.replace("-", "_")] = [value] if equals else []
        else:
            words.append(flag)
    return given


def _of_words(field: Field, words: list[str]) -> Any:
    if "list" in field.kinds and words:
        return _converted(field, words)
    if "bool" in field.kinds and not words:
        return True
    if len(words) != 1:
        raise InvalidInputError(f"--{field.name} takes one value; got {' '.join(words) or 'none'}")
    return _converted(field, words[0])


def _converted(field: Field, value: Any) -> Any:
    """The value as the field's type.

    Raises:
        InvalidInputError: it is none that is allowed.
    """
    for kind in field.kinds:
        try:
            found = _as(kind, value)
        except (ValueError, KeyError):
            continue
        bounds = BOUNDS.get(field.name, Bounds())
        if type(found) in (int, float) and found not in bounds:
            raise InvalidInputError(
                f"{field.name} must be {bounds.words(type(found).__name__)}; got {value}"
            )
        if isinstance(found, str) and field.choices and found not in field.choices:
            problem = f"unknown {field.name} {value!r}"
            if field.name in BOUNDS:  # a number or a word
                kinds = f"{bounds.words('int')} or a word"
                problem = f"{field.name} must be {kinds}; got {value!r}"
            raise InvalidInputError(f"{problem}; {suggestion(value, field.choices)}")
        if isinstance(found, list) and field.name in ("reward_weights", "reward_range"):
            _check_numbers(field.name, found)
        return found
    wanted = [_KINDS[kind][0] for kind in field.kinds if kind in _KINDS]
    raise InvalidInputError(f"{field.name} must be {' or '.join(wanted)}; got {value!r}")


def _as(kind: str, value: Any) -> Any:
    """The value as one of a kind.

    Raises:
        ValueError, KeyError: it is none.
    """
    if kind not in _KINDS or type(value) not in _KINDS[kind][1]:
        raise ValueError
    if kind == "bool":
        return _BOOLEANS[str(value).lower()]
    if kind == "str" and isinstance(value, dict):
        return json.dumps(value)
    return {"int": int, "float": float}.get(kind, lambda same: same)(value)


def _check_numbers(name: str, values: list[Any]) -> None:
    for value in values:
        with suppress(ValueError):
            if math.isfinite(_as("float", value)):
                continue
        raise InvalidInputError(f"{name} must be finite numbers; got {value!r}")


# ---- reading source files ------------------------------------------------------------------------


@cache
def _source(package: str, file: str) -> ast.Module:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))


def _class(module: ast.Module, name: str) -> ast.ClassDef:
    return next(n for n in module.body if isinstance(n, ast.ClassDef) and n.name == name)


def _fields(
    module: ast.Module, owner: str, enums: Mapping[str, tuple[str, ...]]
) -> Iterator[Field]:
    for node in _class(module, owner).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name, kinds = node.target.id, tuple(_kinds(node.annotation))
        if "ClassVar" in kinds or node.value is None:
            continue
        choices = _WORDS.get(name, ())
        for kind in kinds:
            choices = enums.get(kind, choices)
        kinds = tuple("str" if kind in enums else kind for kind in kinds)
        default, meaning = _default(node.value)
        # a number before text, which every flag is
        order = sorted(dict.fromkeys(kinds), key=lambda kind: kind == "str")
        yield Field(name, owner, tuple(order), default, meaning, choices)


def _kinds(node: ast.expr) -> Iterator[str]:
    """The members of a union, by name."""
    match node:
        case ast.Constant(value=str(text)):
            yield from _kinds(ast.parse(text, mode="eval").body)
        case ast.Constant(value=value):
            yield str(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield {"List": "list", "Dict": "dict", "Literal": "bool"}.get(name, name)
        case ast.BinOp(left=left, right=right):
            yield from (*_kinds(left), *_kinds(right))
        case ast.Subscript(value=ast.Name(id="Optional" | "Union" as name), slice=inner):
            for member in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
                yield from _kinds(member)
            yield from ["None"] * (name == "Optional")
        case ast.Subscript(value=base):
            yield from _kinds(base)


def _default(node: ast.expr) -> tuple[Any, str]:
    """The default of a field and its help."""
    if not isinstance(node, ast.Call):
        return _literal(node), ""
    found = {word.arg: word.value for word in node.keywords}
    positional = dict(zip(("default", "help"), node.args, strict=False))
    metadata = _literal(found["metadata"]) if "metadata" in found else None
    meaning = metadata.get("help", "") if isinstance(metadata, dict) else ""
    if "help" in positional:
        meaning = str(_literal(positional["help"]))
    default = found.get("default", positional.get("default"))
    return None if default is None else _literal(default), str(meaning)


def _literal(node: ast.expr) -> Any:
    """The value of a constant expression; its source, if it is none."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _enums(module: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Classes whose attributes are constant words, with these."""
    for node in module.body:
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(b) for b in node.bases):
            values = [s.value for s in node.body if isinstance(s, ast.Assign)]
            yield node.name, tuple(str(v.value) for v in values if isinstance(v, ast.Constant))
