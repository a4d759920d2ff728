"""Checks of what `PODSTrainer` is given, before TRL fails on it later with a riddle.

Arguments and datasets are checked when the trainer is made, reward functions also whenever they are
called: their errors say which function, at which step, for which completion.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset

from podsrl.errors import InvalidInputError, PodsError, RewardError, suggestion
from podsrl.rollout_log.turns import text_of
from podsrl.trl.config import PODSConfig

#: What every TRL passes to a reward function, besides the columns of the dataset.
_ALWAYS_PASSED = ("prompts", "completions", "completion_ids", "trainer_state")
#: What some versions pass, or some runs, or podsrl.
_SOMETIMES_PASSED = ("log_extra", "log_metric", "environments", "num_rollouts")
#: Columns that TRL does not pass on; completion_ids are then those that the model made.
_COLUMNS_NOT_PASSED = ("prompt", "completion", "completion_ids")
#: TRL sums the squares of rewards in float32, which ends at 3.4e38.
_HUGE = 1e18
_SHOWN = 200  # characters of a completion
_ALLOWED = "allowed are finite numbers, and None or NaN for a completion that could not be scored"


def check_arguments(args: Any, reward_funcs: Any, environments: Any, dataset: Any) -> None:
    """Refuse arguments of `PODSTrainer` that would fail later, or train on something else.

    Args:
        args: The config.
        reward_funcs: A reward function or a list of them; environments may add their own.
        environments: TRL's `environment_factory`, or None.
        dataset: The training dataset, or None.

    Raises:
        InvalidInputError: What is wrong, what is allowed, and what to do.
    """
    if not isinstance(args, PODSConfig):
        raise InvalidInputError(
            f"PODSTrainer needs args=podsrl.trl.PODSConfig(...), got {type(args).__name__};"
            " PODSConfig takes every field of GRPOConfig"
        )
    if isinstance(dataset, Mapping):
        raise InvalidInputError(
            f"train_dataset is a {type(dataset).__name__} of {', '.join(map(str, dataset))}; give"
            " one of its datasets, such as train_dataset=dataset['train']"
        )
    _check_are_functions(reward_funcs, environments)
    _check_columns_of_trl(dataset)
    _check_dataset_has_prompts(dataset, environments)
    _check_number_of_prompts(args, dataset)
    _check_stream(args, dataset)
    _check_recorded_columns(args, dataset)
    if environments is None:
        _check_selection_weights(args, reward_funcs)


def _check_are_functions(reward_funcs: Any, environments: Any) -> None:
    """Refuse what is no reward function, and no reward model or its name, which TRL loads."""
    if isinstance(reward_funcs, tuple | Mapping):
        raise InvalidInputError(
            f"reward_funcs is a {type(reward_funcs).__name__}; give a function, or a list of them"
        )
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    if environments is None and (reward_funcs is None or not functions):
        raise InvalidInputError("there is no reward function: give reward_funcs one, or a list")

    for function in functions if reward_funcs is not None else ():
        if inspect.isclass(function):
            raise InvalidInputError(
                f"reward_funcs has the class {function.__name__}: give an instance of it,"
                f" {function.__name__}()"
            )
        if isinstance(function, str):
            if "/" not in function and not Path(function).is_dir():
                raise InvalidInputError(
                    f"reward_funcs has the text {function!r}, which is the name of a reward model"
                    " to TRL, and such a name is 'owner/model' or a folder that is there; of a"
                    " function give the function itself: import it"
                )
        elif not callable(function):
            raise InvalidInputError(
                f"reward_funcs has {function!r:.80}, and must have functions: give the function"
                " itself, not what it returns"
            )


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is no callback, such as a function."""
    for callback in callbacks or ():
        if not hasattr(callback, "on_train_begin"):
            raise InvalidInputError(
                f"callbacks has {callback!r:.80}, and must have instances of"
                " transformers.TrainerCallback: a class with a method such as on_step_end"
            )


def _check_columns_of_trl(dataset: Any) -> None:
    """Refuse columns whose names TRL gives to reward functions for something else."""
    columns = _columns(dataset)
    taken = [name for name in ("prompts", "completions") if name in (columns or ())]
    if isinstance(columns, list) and taken:
        raise InvalidInputError(
            f"train_dataset has a column {taken[0]!r}, and TRL gives reward functions what was"
            f" generated by that name: rename it, as by dataset.rename_column({taken[0]!r}, ...)"
        )


def _check_dataset_has_prompts(dataset: Any, environments: Any) -> None:
    """Refuse a dataset without prompts, unless environments have them: `reset` returns each."""
    columns = _columns(dataset) or ()
    if environments is None or "prompt" in columns:
        check_prompts(dataset, "train_dataset")


def _check_number_of_prompts(args: PODSConfig, dataset: Any) -> None:
    prompts = int(args.generation_batch_size or 0) // int(args.num_generations or 1)
    if not hasattr(dataset, "__len__") or len(dataset) >= prompts:
        return
    raise InvalidInputError(
        f"train_dataset has {len(dataset)} prompts, and one generation takes {prompts} (rows /"
        " num_generations): TRL would train on nothing. Give more prompts, lower"
        " per_device_train_batch_size or gradient_accumulation_steps, or raise num_generations"
    )


def _check_stream(args: PODSConfig, dataset: Any) -> None:
    """Refuse a stream if TRL would train on some of its prompts several times and never on others.

    A stream in at least as many parts as processes is read in parts: each process reads its own.
    So every process must have as many parts, and a group must lie within what it reads at once.

    A process reads blocks of W batches, W being the number of processes, and repeats each block
    R = num_iterations x steps_per_generation times. TRL generates for every R-th batch. These are
    all batches of the block, each once, if R and W have no common divisor.
    """
    parts = getattr(dataset, "num_shards", 0)
    if hasattr(dataset, "__len__") or not 1 < args.world_size <= parts:
        return

    steps = int(args.steps_per_generation or 1)
    rows_of_process = args.per_device_train_batch_size * steps
    repeats_some = math.gcd(args.num_iterations * steps, args.world_size) > 1
    cuts_groups = rows_of_process % int(args.num_generations or 1) != 0
    if repeats_some or cuts_groups or parts % args.world_size:
        raise InvalidInputError(
            f"train_dataset is streamed in {parts} parts to {args.world_size} processes: TRL would"
            " train on some of its prompts several times and never see others. Load it whole, or"
            " stream it in fewer parts than processes"
        )


def _check_recorded_columns(args: PODSConfig, dataset: Any) -> None:
    """Refuse a column to record that the dataset lacks; of some streams it isn't known."""
    columns = _columns(dataset)
    if not isinstance(columns, list):
        return
    for name in args.rollout_log_columns or ():
        if name not in columns:
            raise InvalidInputError(
                f"rollout_log_columns has {name!r}, and train_dataset has no such column;"
                f" {suggestion(name, columns)}"
            )


def _check_selection_weights(args: PODSConfig, reward_funcs: Any) -> None:
    functions = len(reward_funcs) if isinstance(reward_funcs, list) else 1
    weights = args.selection_weights
    if weights is not None and len(weights) != functions:
        raise InvalidInputError(
            f"selection_weights has {len(weights)} numbers for {functions} reward functions;"
            " give one for each, in their order, environments' own rewards last"
        )


# ---- datasets


def _columns(dataset: Any) -> Any:
    """The columns of a dataset's rows; None where only the rows say, as with a transform."""
    has_transform = isinstance(dataset, Dataset) and dataset.format["type"] == "custom"
    return None if has_transform else getattr(dataset, "column_names", None)


def check_prompts(dataset: Any, name: str) -> None:
    """Refuse a dataset whose prompts TRL can't use; a stream is looked at no further than it says.

    Args:
        dataset: One of `datasets`, or None.
        name: What the trainer calls it, such as "train_dataset".

    Raises:
        InvalidInputError: No column "prompt", or a prompt that is neither text nor a list of
            messages; the message names the row.
    """
    columns = _columns(dataset)
    if not isinstance(columns, list):
        return
    if "prompt" not in columns:
        raise InvalidInputError(
            f"{name} has no column 'prompt'; it has {', '.join(columns)}. A prompt is text or a"
            f" list of messages: {name}.map(lambda row: {{'prompt': ...}}) makes one"
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        return

    prompts = dataset.select_columns(["prompt"]).with_format("arrow")[:]["prompt"]
    kind = prompts.type
    if pa.types.is_primitive(kind) or pa.types.is_struct(kind):  # numbers, or a dictionary
        raise InvalidInputError(
            f"prompts of {name} are {kind}, and a prompt is text, or a list of messages such as"
            " [{'role': 'user', 'content': ...}]"
        )
    message = kind.value_type if _is_list(kind) else None
    if message is not None and pa.types.is_struct(message):
        names = [message.field(i).name for i in range(message.num_fields)]
        if missing := [key for key in ("role", "content") if key not in names]:
            raise InvalidInputError(
                f"messages of the prompts of {name} have {', '.join(names)}, and no"
                f" {' and no '.join(map(repr, missing))}; a message is"
                " {'role': 'user', 'content': ...}"
            )
    _refuse_empty(prompts, name)


def check_model(model: Any, reward_funcs: Any) -> None:
    """Refuse a function in the place of the model, and a path where no model is.

    The first two arguments are easily swapped.
    """
    if isinstance(model, str | Path):
        _check_model_folder(str(model))
    if not callable(model) or isinstance(model, torch.nn.Module | type):
        return
    name = getattr(model, "__name__", type(model).__name__)
    is_swapped = isinstance(reward_funcs, torch.nn.Module | str)
    hint = "it and reward_funcs are swapped" if is_swapped else "the model comes first"
    raise InvalidInputError(
        f"model is the function {name!r}; {hint}: PODSTrainer(model, reward, args=...)"
    )


def _check_model_folder(name: str) -> None:
    """A path leads to a folder with a model; any other name may be one of the hub's."""
    folder = Path(name).expanduser()
    if folder.exists() or name.startswith(("/", "./", "../", "~")):
        if not folder.is_dir():
            raise InvalidInputError(f"model is {name!r}, and there is no such folder")
        if not any((folder / file).is_file() for file in ("config.json", "adapter_config.json")):
            raise InvalidInputError(
                f"model is {name!r}, and that folder holds none: neither config.json nor"
                " adapter_config.json is there"
            )


def check_first_prompt(dataset: Any, tokenizer: Any) -> None:
    """Refuse a dataset whose first prompt the chat template turns into an empty text.

    Templates do so with messages of a role that they don't know.

    Args:
        dataset: The training dataset; None and streams are not looked at.
        tokenizer: The trainer's processing class.

    Raises:
        InvalidInputError: The first prompt would be empty; the message says its roles.
    """
    if not hasattr(dataset, "__len__") or not getattr(tokenizer, "chat_template", None):
        return
    prompt = dataset[0].get("prompt")
    if not isinstance(prompt, list) or not all(isinstance(one, Mapping) for one in prompt):
        return
    try:
        text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=False)
    except Exception:  # noqa: BLE001 (the template's own error names what it misses when it is used)
        return
    if isinstance(text, str) and not text.strip():
        roles = ", ".join(repr(message.get("role")) for message in prompt)
        raise InvalidInputError(
            f"the chat template makes nothing of the first prompt of train_dataset, whose roles are"
            f" {roles}: a message of the user has the role 'user'"
        )


def check_parameters(functions: Sequence[Any], dataset: Any, name: str) -> None:
    """Refuse a reward function that TRL can't call with the columns of a dataset.

    Raises:
        InvalidInputError: It needs a column that the dataset lacks, or it lacks `**kwargs`.
    """
    columns = _columns(dataset)
    if not isinstance(columns, list):
        return
    for function in functions:
        if callable(function) and not isinstance(function, torch.nn.Module):
            _check_function(function, columns, name)


def check_environments(pools: Mapping[Any, Sequence[Any]], dataset: Any, name: str) -> None:
    """Refuse a dataset whose columns don't fit the environments.

    Args:
        pools: The environments that TRL made so far, by their name; of one alone the name is None.
        dataset: One of `datasets`, or None where environments have the prompts.
        name: What the trainer calls it.

    Raises:
        InvalidInputError: No column "environment" where there are several, a row that names none of
            them, or a `reset` that can't be called with the columns.
    """
    columns = _columns(dataset)
    if not isinstance(columns, list):
        return
    if None not in pools:
        _check_names_of_environments(list(pools), dataset, columns, name)
        columns = [column for column in columns if column != "environment"]
    for environments in pools.values():
        for environment in environments[:1]:
            _check_reset(environment, columns, name)


def _check_names_of_environments(
    known: Sequence[str], dataset: Any, columns: Sequence[str], name: str
) -> None:
    allowed = f"allowed: {', '.join(map(str, known))}"
    if "environment" not in columns:
        listed = ", ".join(map(repr, columns))
        raise InvalidInputError(
            f"{name} has no column 'environment', which says of each prompt which one of several it"
            f" has ({allowed}); it has {listed}. Rename one of them, or add it"
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        return
    for row, given in enumerate(dataset.select_columns(["environment"])[:]["environment"]):
        if given not in known:
            raise InvalidInputError(
                f"the environment of row {row} of {name} is {given!r}; {allowed}"
            )


def _check_reset(environment: Any, columns: Sequence[str], name: str) -> None:
    who = f"{type(environment).__name__}.reset"
    takes = _Parameters.of(environment.reset)
    takes.refuse_what_is_missing(columns, who, columns, name)
    takes.refuse_what_is_too_much(columns, who)


class _Parameters(NamedTuple):
    """The parameters that a function takes by name."""

    needed: list[str]  # those without a default
    accepted: set[str]
    takes_any_other: bool  # by **kwargs

    @classmethod
    def of(cls, function: Any) -> "_Parameters":
        """The parameters of a function.

        Raises:
            TypeError, ValueError: `inspect.signature` can't be asked for them.
        """
        parameters = inspect.signature(function).parameters.values()
        by_name = [
            parameter
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        return cls(
            needed=[
                parameter.name for parameter in by_name if parameter.default is parameter.empty
            ],
            accepted={parameter.name for parameter in by_name},
            takes_any_other=any(
                parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
            ),
        )

    def refuse_what_is_missing(
        self, passed: Collection[str], who: str, columns: Sequence[str], name: str
    ) -> None:
        """Raise `InvalidInputError` where something is needed that TRL will not pass."""
        if missing := [parameter for parameter in self.needed if parameter not in passed]:
            raise InvalidInputError(
                f"{who} needs {', '.join(map(repr, missing))}, and {name} has no such column; it"
                f" has {', '.join(columns)}. Rename one of them"
            )

    def refuse_what_is_too_much(self, passed: Sequence[str], who: str) -> None:
        """Raise `InvalidInputError` where TRL will pass something that is not accepted."""
        unknown = [parameter for parameter in passed if parameter not in self.accepted]
        if unknown and not self.takes_any_other:
            raise InvalidInputError(
                f"{who} has no **kwargs among its parameters, and TRL also passes"
                f" {', '.join(unknown)}: add **kwargs"
            )


def _check_function(function: Any, columns: Sequence[str], name: str) -> None:
    try:
        takes = _Parameters.of(function)
    except (TypeError, ValueError):  # such as a function of C
        return

    who = f"reward function {getattr(function, '__name__', type(function).__name__)!r}"
    passed = [*_ALWAYS_PASSED, *(name for name in columns if name not in _COLUMNS_NOT_PASSED)]
    takes.refuse_what_is_missing({*passed, *_SOMETIMES_PASSED}, who, columns, name)
    takes.refuse_what_is_too_much(passed, who)


def _refuse_empty(prompts: Any, name: str) -> None:
    """Refuse prompts that are missing or empty, by the number of the first one."""
    is_bad_for = {"None": pc.is_null(prompts)}
    if _is_text(prompts.type):
        is_bad_for["empty"] = pc.equal(pc.binary_length(prompts), 0)
    elif _is_list(prompts.type):
        is_bad_for["empty"] = pc.equal(pc.list_value_length(prompts), 0)

    for what, is_bad in is_bad_for.items():
        row = pc.index(is_bad, True).as_py()
        if row >= 0:
            count = pc.sum(is_bad).as_py()
            raise InvalidInputError(
                f"the prompt of row {row} of {name} is {what}, as {count} of {len(prompts)} are:"
                " leave such rows out"
            )


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


# ---- reward functions


def checked(
    function: Any, name: str, next_step: Callable[[], int], group_size: Callable[[], int]
) -> Any:
    """A reward function that gives the same rewards as `function`, or says why in a `RewardError`.

    A reward model is returned as it is.

    Args:
        function: The user's.
        name: What messages call it.
        next_step: The optimiser step that messages name.
        group_size: How many completions, one after the other, are of one prompt. A function that
            has a place for it is given this number as `num_rollouts`.
    """
    if isinstance(function, torch.nn.Module):
        return function
    kind = _AwaitedFunction if _is_async(function) else _CheckedFunction
    return kind(function, name, next_step, group_size)


class _CheckedFunction:
    """A reward function that is checked whenever it is called; TRL passes everything by name.

    Its attributes are those of the user's function or object, to read and to set: subclasses of
    TRL's trainer look for them at `trainer.reward_funcs`.
    """

    def __init__(
        self,
        function: Any,
        name: str,
        next_step: Callable[[], int],
        group_size: Callable[[], int],
    ) -> None:
        # Not by name, as __setattr__ would set them on the user's function.
        vars(self).update(
            _function=function,
            _who=f"reward function {name!r}",
            _next_step=next_step,
            _group_size=group_size if _takes(function, "num_rollouts") else None,
        )

    def __getattr__(self, name: str) -> Any:
        if "_function" not in vars(self):  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._function, name, value)

    def __call__(self, *args: Any, **columns: Any) -> Any:
        if args or "completions" not in columns:  # a subclass calls it as the function that it is
            return self._function(*args, **columns)

        completions = columns.pop("completions")
        given = list(completions)  # a function may empty its list
        with _Named(self._who, self._next_step(), given):
            values = self._function(completions=completions, **self._with_group_size(columns))
            return _as_rewards(values, self._who, self._next_step(), given)

    def _with_group_size(self, columns: dict[str, Any]) -> dict[str, Any]:
        if self._group_size is None:
            return columns
        return {"num_rollouts": self._group_size(), **columns}  # a column of that name wins


class _AwaitedFunction(_CheckedFunction):
    """The same for a function that is awaited."""

    async def __call__(self, *args: Any, **columns: Any) -> Any:
        if args or "completions" not in columns:
            return await self._function(*args, **columns)

        completions = columns.pop("completions")
        given = list(completions)
        with _Named(self._who, self._next_step(), given):
            called = self._function(completions=completions, **self._with_group_size(columns))
            return _as_rewards(await called, self._who, self._next_step(), given)

    # TRL before 1.14 awaits functions alone, and Python takes what has all of these for one.
    __code__ = __call__.__code__
    __defaults__ = __call__.__defaults__
    __kwdefaults__ = __call__.__kwdefaults__

    @property
    def __name__(self) -> str:
        return getattr(self._function, "__name__", type(self._function).__name__)


def reads_num_generations(function: Any) -> bool:
    """Whether the code of a reward function has the name `num_generations`.

    With n > m a group is n wide, and such a function likely cuts it into pieces of m.
    """
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):  # an object that is called
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and _has_name(code, "num_generations")


def asks_for_group_size(function: Any) -> bool:
    """Whether a reward function has a parameter of its own for the rollouts of a prompt."""
    try:
        return "num_rollouts" in _Parameters.of(function).accepted
    except (TypeError, ValueError):  # such as a function of C
        return False


def _has_name(code: CodeType, name: str) -> bool:
    if name in (*code.co_names, *code.co_varnames, *code.co_freevars):
        return True
    return any(_has_name(inner, name) for inner in code.co_consts if isinstance(inner, CodeType))


def _takes(function: Any, name: str) -> bool:
    """Whether a function can be given an argument of this name."""
    try:
        takes = _Parameters.of(function)
    except (TypeError, ValueError):  # such as a function of C
        return False
    return takes.takes_any_other or name in takes.accepted


def _is_async(function: Any) -> bool:
    """Whether a function, a partial of one, or an object that is called, is asynchronous."""
    while isinstance(function, partial):
        function = function.func
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def check_rewards(rewards_R_F: torch.Tensor, names_F: Sequence[str], step: int) -> None:
    """Refuse infinite rewards, which a reward model may give, and those TRL can't square."""
    infinite_F = (rewards_R_F.abs() > _HUGE).any(dim=0).tolist()
    if any(infinite_F):
        names = ", ".join(name for name, bad in zip(names_F, infinite_F, strict=True) if bad)
        raise RewardError(
            f"reward function or model {names} gave a reward beyond {_HUGE:g}, and the squares of"
            f" such ones are too large for float32, at step {step}; {_ALLOWED}. Give smaller ones"
        )


def refuse_twice(names_F: Sequence[str]) -> None:
    """Two reward functions may not have one name: it tells their metrics and columns apart."""
    if twice := sorted({name for name in names_F if names_F.count(name) > 1}):
        raise InvalidInputError(
            f"two reward functions are called {twice[0]!r}, and metrics and logged columns tell"
            " them apart by name only; give each its own __name__ (a functools.partial has that of"
            " its function: write a def around it), a reward model its own folder"
        )


def told_apart(names_F: Sequence[str]) -> list[str]:
    """The names of reward functions, with a number behind those that others have, too.

    Two lambdas have one name, and metrics and logged columns are told apart by name only.

    >>> told_apart(["<lambda>", "right", "<lambda>"])
    ['<lambda>', 'right', '<lambda>_2']
    """
    found: list[str] = []
    for name in names_F:
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        found.append(name if name not in found else next(n for n in numbered if n not in found))
    return found


class _Named:
    """Inside, an error of a reward function becomes a `RewardError` that names it.

    A class, since a context manager that is a generator can't be left by `StopIteration`.
    """

    def __init__(self, who: str, step: int, completions: Sequence[Any]) -> None:
        self._who = who
        self._step = step
        self._completions = completions

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        in_task_file = isinstance(error, InvalidInputError)  # it says where
        says_all = isinstance(error, PodsError) and not in_task_file
        if not isinstance(error, Exception) or says_all:
            return
        kind_of_error = "" if in_task_file else f"{type(error).__name__}: "
        raise RewardError(
            f"{self._who} failed at step {self._step}: {kind_of_error}{error}. It was given"
            f" {len(self._completions)} completions{_first_of(self._completions)}"
        ) from error


def _as_rewards(values: Any, who: str, step: int, completions: Sequence[Any]) -> list[float]:
    """The rewards of a function as one number per completion, NaN where it gave None."""
    # An array of numpy or torch without a dimension has `__iter__`, too, and can't be iterated.
    is_scalar = getattr(values, "ndim", None) == 0
    is_list = hasattr(values, "__iter__") and not (is_scalar or isinstance(values, str | Mapping))
    rewards = list(values) if is_list else []

    if len(rewards) != len(completions):
        returned = type(values).__name__
        if is_list:
            returned = f"{len(rewards)} rewards for {len(completions)} completions"
        elif is_scalar:
            returned += " without a dimension"
        raise RewardError(
            f"{who} returned {returned} at step {step}; it must return a list with one reward per"
            f" completion, here {len(completions)}, the first for {_shown(completions[0])}"
        )

    return [
        _as_reward(value, who, step, completion)
        for value, completion in zip(rewards, completions, strict=True)
    ]


def _as_reward(value: Any, who: str, step: int, completion: Any) -> float:
    if value is None:
        return math.nan
    reward = _as_float(value)
    if reward is not None and not math.isinf(reward):
        return reward

    problem = "which is no number" if reward is None else "which is infinite"
    raise RewardError(
        f"{who} returned {value!r:.80} at step {step}, {problem}; {_ALLOWED}. It was for the"
        f" completion {_shown(completion)}"
    )


def _as_float(value: Any) -> float | None:
    """A number of Python, numpy or torch as a float; None of what is no number, such as "1"."""
    if isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _first_of(completions: Sequence[Any]) -> str:
    """The first completion for a message; a reward function may have emptied the list."""
    return f", the first of them {_shown(completions[0])}" if completions else ""


def _shown(completion: Any) -> str:
    text = text_of(completion)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
