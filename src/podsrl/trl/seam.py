"""TRL's trainer as podsrl meets it: the one file that names the private things of TRL's trainer.

`Seam` is TRL's `GRPOTrainer` with podsrl at the places where it comes in. `Host` is what podsrl
reads and sets of TRL's trainer, under names of podsrl's own. When TRL renames something, this file
is where both names live; tests/host_trl/test_contract.py pins each of them. The names of TRL's
asynchronous trainer stand in `podsrl.trl.async_grpo`.

| place in TRL | what podsrl does there |
|---|---|
| `_prepare_inputs` | stands around a whole batch, and around what a subclass made of it |
| `_generate_and_score_completions` | a generation begins and ends: each call of it has its own |
| `_generate` | n rollouts are generated and scored, and the kept ones are handed over |
| `_calculate_rewards` | scores all n once, as a subclass has it, and is asked for those kept |
| `_get_per_token_logps_and_entropies`, `compute_loss` | rows without gradient have no pass |
| `_get_grad_norm` | no step rests on NaN, or on nothing |
| `_save_checkpoint`, `_load_optimizer_and_scheduler`, `_get_train_sampler` | a resumed run goes \
on exactly |

A subclass's methods are called as TRL would call them, with n rollouts of each prompt where TRL has
m. So podsrl stands *in front of* them while a generation is made, and not behind them: it puts its
own functions on the trainer itself, where Python looks first.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import transformers
import trl
from trl import GRPOTrainer
from trl.trainer import grpo_trainer

from podsrl.errors import UnsupportedError
from podsrl.trl.messages import logger
from podsrl.trl.spare_passes import log_probs_of_rows
from podsrl.trl.steady import checkpointing_paused

if TYPE_CHECKING:
    from podsrl.trl.down_sampling import DownSampling

MAX_NUM_BATCHED_TOKENS = 4096  # TRL's setting; vLLM refuses a max_num_seqs above it
#: What generates, and what scores, as a trainer has them, and its prompts -> rows and rewards.
MakeRows = Callable[
    [Callable[..., Any], Callable[..., Any], list[Any]], tuple[tuple[Any, ...], Any]
]

#: Methods that are given micro-batches, or their loss.
_SEES_ROWS = ("_compute_loss", "compute_loss", "_prepare_inputs", "training_step")
#: Where the methods of TRL's trainer and their decorators are defined.
_FILES_OF_HOSTS = tuple(
    f"{Path(str(module.__file__)).parent}{os.sep}" for module in (trl, transformers, torch)
)
#: What TRL's trainer holds of each row while it generates, where a run uses it.
_OF_EACH_ROW = ("environments", "_sync_tool_dicts", "_async_tool_dicts")


class Seam(GRPOTrainer):
    """TRL's trainer, which comes back to podsrl at the places that the table above names."""

    pods: "DownSampling"  # everything of podsrl's that a trainer has

    # TRL's, as it constructs them
    args: Any
    model: torch.nn.Module
    num_generations: int
    num_generations_eval: int
    scale_rewards: Literal["group", "batch", "none"]

    _tag_names = ["trl", "grpo", "pods"]  # noqa: RUF012 (TRL's own class attribute)
    _name: str  # what the model's card says that it was trained with
    _paper: dict[str, str]

    # ---- a generation

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        if not self.model.training:
            with checkpointing_paused(self.model), self.pods.checking_reward_functions():
                inputs = super()._prepare_inputs(generation_batch)
            self.model.eval()  # TRL's continuous batching leaves it in training mode
            return inputs

        self.pods.changes = Changes.of(self)  # before anything of ours stands in front
        generate_and_score = self._generate_and_score_completions

        def make_batch(inputs: list[dict[str, Any]]) -> dict[str, Any]:
            return self.pods.make_batch(inputs, generate_and_score)

        with in_front(self, _generate_and_score_completions=make_batch):
            inputs = super()._prepare_inputs(generation_batch)
        self.pods.step_guard.has_micro_batch()
        return inputs

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # A subclass may call it with rows of its own, and more than once.
        of_trl = super()._generate_and_score_completions
        if not self.model.training:
            output: dict[str, Any] = of_trl(inputs)
            return output
        return self.pods.make_rows(inputs, of_trl)

    # ---- the update

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        compute = super()._get_per_token_logps_and_entropies
        rows = self.pods.rows_with_log_probs()
        return log_probs_of_rows(rows, compute, model, *args, **kwargs)

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's; 0 without a pass where no row of the micro-batch has a gradient."""
        compute = super().compute_loss
        if not model.training:
            return compute(model, inputs, *args, **kwargs)
        passes = self.pods.passes
        settings = self.pods.settings
        passes.check_loss_type(settings)
        if passes.may_leave_out(settings, inputs):
            return torch.zeros((), device=inputs["advantages"].device, requires_grad=True)
        passes.count(inputs)
        return compute(model, inputs, *args, **kwargs)

    def _get_grad_norm(self, *args: Any, **kwargs: Any) -> Any:
        # transformers asks for the norm between the last backward pass and the optimiser's step.
        norm = super()._get_grad_norm(*args, **kwargs)
        self.pods.step_guard.before_step(norm)
        return norm

    # ---- checkpoints

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = self._get_output_dir(trial=trial)
        self.pods.checkpoints.save(folder)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        super()._load_optimizer_and_scheduler(folder)
        if folder is not None:
            self.pods.checkpoints.load(folder)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler = super()._get_train_sampler(dataset)
        self.pods.checkpoints.sampler = sampler
        return sampler


class Host:
    """The attributes of TRL's trainer that podsrl reads and sets beside the public ones.

    Args:
        trainer: TRL's trainer; its public attributes are read from it directly.
    """

    def __init__(self, trainer: Seam) -> None:
        self.trainer = trainer

    # ---- a generation

    def generating(self, make_rows: MakeRows) -> AbstractContextManager[None]:
        """Inside, TRL's first call to generate gets these rows, the next to score their rewards.

        What a subclass generates or scores besides goes to its own methods, as without podsrl.

        Args:
            make_rows: Is given what generates, what scores, both as the class or its user have
                them, and TRL's prompts. It returns the rows and their rewards.
        """
        generate = self.trainer._generate
        calculate_rewards = self.trainer._calculate_rewards
        answers: list[Any] = []
        is_asked = False

        def rows_for_trl(prompts: list[Any]) -> tuple[Any, ...]:
            nonlocal is_asked
            if is_asked:
                return generate(prompts)
            is_asked = True
            rows, rewards = make_rows(generate, calculate_rewards, prompts)
            answers.append(rewards)
            return rows

        def rewards_for_trl(*args: Any, **kwargs: Any) -> Any:
            return answers.pop() if answers else calculate_rewards(*args, **kwargs)

        return in_front(self.trainer, _generate=rows_for_trl, _calculate_rewards=rewards_for_trl)

    def asking_for(self, n: int, rows: int) -> AbstractContextManager[None]:
        """Inside, TRL's `_generate` asks its engine for n of each prompt, with tools for each row.

        TRL made a dictionary of tools for each of its own m rows of a prompt.
        """
        tools: dict[str, Any] = {}
        if self.trainer.tools and self.trainer.environment_factories is None:
            names = ("_sync_tool_dicts", "_async_tool_dicts")
            tools = {name: [getattr(self.trainer, name)[0]] * rows for name in names}
        return swapped(self.trainer, num_generations=n, **tools)

    def scoring(self, n: int, reward_funcs: list[Any]) -> AbstractContextManager[None]:
        """Inside, a group is n wide for what scores, by these functions.

        A subclass's `_calculate_rewards` may cut its rows by the trainer's `num_generations`.
        """
        return swapped(self.trainer, num_generations=n, reward_funcs=reward_funcs)

    @property
    def generating_model(self) -> Any:
        """The model whose `generate` TRL calls, where transformers generates."""
        return self.trainer.accelerator.unwrap_model(self.trainer.model_wrapped)

    @property
    def other_engine(self) -> bool:
        """Whether something else generates than transformers' `generate`."""
        names = ("use_vllm", "use_transformers_continuous_batching", "rollout_func")
        return any(getattr(self.trainer, name, None) for name in names)

    def keep_of_each_row(self, indices: Sequence[int | None], names: Any) -> None:
        """Leave TRL with what it holds of these rows, of all that it holds one of.

        Args:
            indices: The places of the rows; None for one that another process generated.
            names: The names of their environments.
        """
        for name in _OF_EACH_ROW:
            generated: Sequence[Any] | None = getattr(self.trainer, name, None)
            if generated is not None:
                of_rows = [None if index is None else generated[index] for index in indices]
                setattr(self.trainer, name, of_rows)
        self.trainer._batch_environments = names

    def holding_of_each_row(self, indices: Sequence[int]) -> AbstractContextManager[None]:
        """Inside, TRL's environments, and what it holds beside them, are those of these rows.

        Args:
            indices: The places of the rows.
        """
        values = {
            name: [getattr(self.trainer, name)[index] for index in indices]
            for name in (*_OF_EACH_ROW, "_batch_environments")
            if getattr(self.trainer, name, None) is not None
        }
        return swapped(self.trainer, **values)

    @contextmanager
    def engine_kept_awake(self) -> Iterator[None]:
        """Inside, a colocated vLLM that would sleep after each call stays awake until the end.

        TRL's `generate` puts the engine to sleep, which throws its weights away, and at the next
        call wakes it up and gives it all weights again.
        """
        generation = getattr(self.trainer, "vllm_generation", None)
        if generation is None or not generation.enable_sleep_mode or generation.mode == "server":
            yield
            return

        engine = generation.llm
        wake_up = engine.wake_up
        sleep = engine.sleep
        generate = generation.generate
        is_awake = False
        asked_to_sleep: dict[str, Any] = {}

        def wake_up_once(**which: Any) -> None:
            if not is_awake:
                wake_up(**which)

        def sleep_later(**how: Any) -> None:
            nonlocal is_awake
            is_awake = True
            asked_to_sleep.update(how)

        def generate_awake(*args: Any, **kwargs: Any) -> Any:
            if is_awake:
                generation._llm_weights_sleeping = False  # TRL notes that they sleep
            return generate(*args, **kwargs)

        try:
            with (
                in_front(engine, wake_up=wake_up_once, sleep=sleep_later),
                in_front(generation, generate=generate_awake),
            ):
                yield
        finally:
            if is_awake:
                sleep(**asked_to_sleep)
                generation._llm_weights_sleeping = True

    @property
    def environment_names(self) -> Any:
        """The name of each row's environment."""
        return self.trainer._batch_environments

    @property
    def environment_pool(self) -> Any:
        """The environments that TRL made so far, by their name."""
        return self.trainer._environment_pool

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, also of a model with images."""
        return self.trainer._tokenizer

    @property
    def end_tokens(self) -> set[int | None]:
        """The tokens that end an answer, by which TRL tells whether one was cut off."""
        ends = {self.tokenizer.eos_token_id, self.tokenizer.pad_token_id}
        return ends | set(getattr(self.trainer, "eos_token_ids", ()))  # not before TRL 1.16

    # ---- what is logged

    @property
    def metrics(self) -> Any:
        """The values of each metric of training since the last log."""
        return self.trainer._metrics["train"]

    @contextmanager
    def leaving_out_metrics(self) -> Iterator[None]:
        """Inside, what is logged does not count: TRL's `_generate` is called for a later round.

        TRL logs a value of each call, such as the mean length of completions. That of the first
        round, which is over all prompts, stays.
        """
        logged = self.metrics
        before = {name: len(values) for name, values in logged.items()}
        yield
        for name, values in logged.items():
            del values[before.get(name, 0) :]

    @property
    def logs(self) -> Any:
        """The columns of rollouts that TRL holds for its table of completions."""
        return self.trainer._logs

    def logging(self, logs: dict[str, Any]) -> AbstractContextManager[None]:
        """Inside, TRL's table of completions is made of these rollouts."""
        return swapped(self.trainer, _logs=logs)

    @property
    def pending_extra_logs(self) -> dict[str, Any]:
        """The values that reward functions gave to `log_extra` in this generation."""
        pending: dict[str, Any] = self.trainer._pending_extra_logs
        return pending

    def name_on_card(self, name: str, paper: dict[str, str]) -> None:
        """Let the model's card say that it was trained with this, and cite this paper for it.

        What a subclass says of itself stays.
        """
        own = {"_name": name, "_paper": paper}
        for attribute, value in own.items():
            if getattr(self.trainer, attribute) == getattr(GRPOTrainer, attribute):
                setattr(self.trainer, attribute, value)

    # ---- checkpoints

    @property
    def micro_step(self) -> int:
        """The number of micro-batches so far, by which TRL finds its place in the buffer."""
        step: int = self.trainer._step
        return step

    @property
    def buffered_batches(self) -> Any:
        """The micro-batches that are still to be trained on."""
        return self.trainer._buffered_inputs

    def go_on_from(self, micro_step: int, buffered_batches: Any) -> None:
        """Set TRL's place in its buffer, and the buffer."""
        self.trainer._step = micro_step
        self.trainer._buffered_inputs = buffered_batches


@contextmanager
def in_front(thing: Any, **methods: Callable[..., Any]) -> Iterator[None]:
    """Inside, these functions stand in front of the methods of the same names.

    The methods of a subclass, and what a user has put on this object, stay as they are behind it.
    """
    own = vars(thing)
    of_user = {name: own[name] for name in methods if name in own}
    own.update(methods)
    try:
        yield
    finally:
        for name in methods:
            del own[name]
        own.update(of_user)


@contextmanager
def swapped(thing: Any, **values: Any) -> Iterator[None]:
    """Inside, these attributes of `thing` have other values.

    It is used where TRL reads one attribute for two purposes that podsrl has to tell apart:
    * `num_generations`: while TRL's `_generate` makes the rollouts, it asks its engine for n of
      each prompt, with tools for each, and it scores n of each. Everywhere else it is m, the rows
      of a prompt in the update.
    * `reward_funcs`: while TRL scores, they are podsrl's, whose errors say where they are.
    * `environments` and what TRL holds beside them: in a round they are those of its rollouts.
    * `log_multimodal`: in a batch where some processes have no images TRL would wait for all.
    * `_logs`: while TRL logs, its table of completions is made of kept and dropped rollouts.
    * `VLLMGeneration`: while TRL constructs the trainer, a colocated engine gets room for n rows.
    """
    before = {name: getattr(thing, name) for name in values}
    for name, value in values.items():
        setattr(thing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


def engine_for_rollouts(num_rollouts: int, num_generations: int) -> AbstractContextManager[None]:
    """TRL's trainer, constructed inside, lets a colocated engine decode all n rows at once.

    TRL sets `max_num_seqs` to the rows of the update, so the others would wait for a place.
    """
    original = grpo_trainer.VLLMGeneration

    def construct(**options: Any) -> Any:
        rows = -(-options["max_num_seqs"] * num_rollouts // num_generations)
        options["max_num_seqs"] = min(rows, MAX_NUM_BATCHED_TOKENS)
        return original(**options)

    return swapped(grpo_trainer, VLLMGeneration=construct)


@dataclass(frozen=True)
class Changes:
    """The methods of TRL that a subclass, or a user on this very trainer, has replaced or wrapped.

    Args:
        makes_batch: Who makes a batch, such as "Mine._generate_and_score_completions"; "" if nobody
            but TRL and podsrl.
        scores: Who scores rollouts.
        computes_log_probs: Who computes log-probs, perhaps of the rows in another order.
        sees_rows: Who sees micro-batches or their loss, and may count on every row.
        makes_batch_behind: Who makes a batch on TRL's class itself, where podsrl's advantages come
            after theirs.
    """

    makes_batch: str = ""
    scores: str = ""
    computes_log_probs: str = ""
    sees_rows: str = ""
    makes_batch_behind: str = ""

    @classmethod
    def of(cls, trainer: "Seam") -> "Changes":
        """Look at a trainer, while nothing of podsrl's stands in front of its methods."""
        return cls(
            makes_batch=_changed(trainer, "_generate_and_score_completions"),
            scores=_changed(trainer, "_calculate_rewards") or _replaced("_calculate_rewards"),
            computes_log_probs=_changed(trainer, "_get_per_token_logps_and_entropies"),
            sees_rows=_changed(trainer, *_SEES_ROWS) or _replaced(*_SEES_ROWS),
            makes_batch_behind=_replaced("_generate_and_score_completions"),
        )


def _changed(trainer: "Seam", *methods: str) -> str:
    """Who has such a method in front of podsrl's: a class, or the trainer itself."""
    for method in methods:
        if method in vars(trainer):
            return f"{type(trainer).__name__}'s own {method}"
    for owner in type(trainer).__mro__:
        if _is_of_podsrl(owner):
            return ""
        for method in methods:
            if method in vars(owner):
                return f"{owner.__name__}.{method}"
    return ""


def _replaced(*methods: str) -> str:
    """Who has put such a method on TRL's class or on one above it, and in which line of a file."""
    for owner in GRPOTrainer.__mro__:
        for method in methods:
            code = getattr(vars(owner).get(method), "__code__", None)
            if method not in vars(owner) or (code and code.co_filename.startswith(_FILES_OF_HOSTS)):
                continue
            where = f" of {code.co_filename}:{code.co_firstlineno}" if code else ""
            return f"{owner.__name__}.{method}{where}"
    return ""


def refuse_what_stands_behind(trainer: "Seam") -> None:
    """Refuse a class whose methods podsrl would stand in front of, unseen.

    Of `class Mine(PODSTrainer, Theirs)` the methods of Theirs come after podsrl's: their advantages
    would be replaced. `class Mine(Theirs, PODSTrainer)` has them in front.

    Raises:
        UnsupportedError: There is such a class with such a method.
    """
    order = type(trainer).__mro__
    behind = order[order.index(Seam) + 1 : order.index(GRPOTrainer)]
    for owner in behind:
        for method in vars(Seam):
            if method in vars(owner) and callable(getattr(owner, method)):
                name = type(trainer).__name__
                raise UnsupportedError(
                    f"{owner.__name__}.{method} stands behind podsrl's own in {name}, which would"
                    f" replace what it does: write class {name}({owner.__name__}, PODSTrainer)"
                )


def tell_of_replaced_trainer() -> None:
    """Warn where somebody has put another class in the place of `trl.GRPOTrainer`.

    podsrl's trainer inherits the class that was there when podsrl was imported, so it has nothing
    of one that came later. A trainer of podsrl's in that place, as `pods compare` puts one there
    for a script, is no other one.
    """
    current = trl.GRPOTrainer
    is_ours = isinstance(current, type) and issubclass(current, Seam)
    if current is GRPOTrainer or is_ours:
        return
    logger.warning(
        "trl.GRPOTrainer is now %r, put there after podsrl was imported, so PODSTrainer has nothing"
        " of it: put it there before podsrl.trl is imported, or inherit both, that class first, as"
        " in class Both(Mine, PODSTrainer)",
        current,
    )


def _is_of_podsrl(owner: type) -> bool:
    return owner.__module__.partition(".")[0] in ("podsrl", "podslab")
