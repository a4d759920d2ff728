"""Reading a prompt once for all its rollouts, around transformers' own `generate`.

The rollouts of a prompt start from the same state, and `generate` computes it for each of them
anew. Here the prompts are read first, each different one once, all tokens except the last. Their
cache is copied to the rows, and `generate` goes on from there with whole rows:

    tokens read        without: n (length)        with: (length - 1) + n

Where rollouts of the same prompts are generated in several calls, the cache of the prompts is kept
for all of them (`OneReading.remembering`).

`generate` reads the prompts, so positions and masks are the model's own. It draws for as many rows
as before and as often, so the random numbers are the same, too. Logits differ by rounding alone, as
they do between two sizes of a batch.

Whether the cache of a model can be copied is asked of the model: what its cache is made of, whether
it takes one, and whether reading has filled it.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.integrations import is_deepspeed_zero3_enabled

from podsrl.trl.seam import in_front

#: Layers of a cache that hold keys and values by row, and nothing else.
_KEYS_AND_VALUES = (DynamicLayer, DynamicSlidingWindowLayer)

#: Settings with which `generate` makes a cache of its own, or reads other tokens than it is given.
_OTHER_READINGS = (
    "assistant_early_exit",
    "cache_implementation",
    "dola_layers",
    "guidance_scale",
    "penalty_alpha",
    "prefill_chunk_size",
    "prompt_lookup_num_tokens",
    "token_healing",
)
_SPREAD = "the weights are spread over processes, which all have to make the same passes"
#: What TRL calls `generate` with where rows are nothing but text.
_OF_TEXT = {"input_ids", "attention_mask", "generation_config"}


class CannotReadOnceError(Exception):
    """Each row has to be read; the message says why."""


class OneReading:
    """Reads prompts once while a trainer generates, and says why where it can't.

    Args:
        tell: Is told the reason, each one once.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._remembers = False
        self._read: PromptsRead | None = None

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Inside, where the weights must stay as they are, prompts once read are not read again."""
        self._remembers = True
        try:
            yield
        finally:
            self._remembers = False
            self._read = None

    @contextmanager
    def around(self, model: Any) -> Iterator[None]:
        """`model.generate`, called inside as TRL calls it, reads each prompt once.

        Args:
            model: The model that is asked to generate, without what the trainer wraps it in.
        """
        model = getattr(model, "_orig_mod", model)  # what torch.compile has wrapped
        if "generate" in vars(model):
            # FSDP2 gives it one, too, which gathers the weights.
            given = "this model was given a `generate` of its own"
            self._say_once(_SPREAD if _is_spread(model) else given)
            yield
            return

        generate = model.generate

        def reading_once(**given: Any) -> Any:
            try:
                cache = self._cache_for(model, generate, given)
            except CannotReadOnceError as reason:
                self._say_once(str(reason))
                return generate(**given)
            return generate(**given) if cache is None else generate(**given, past_key_values=cache)

        with in_front(model, generate=reading_once):  # nothing else of the model is called by TRL
            yield

    def _cache_for(
        self, model: Any, generate: Callable[..., Any], given: dict[str, Any]
    ) -> DynamicCache | None:
        """The prompts' cache, one entry for each row; None where no two neighbours are equal."""
        # Who looks at the logits of completions has nothing to see of prompts.
        given = {name: value for name, value in given.items() if name != "logits_processor"}
        if set(given) != _OF_TEXT:
            others = sorted(set(given) ^ _OF_TEXT)
            raise CannotReadOnceError(f"`generate` is called with {', '.join(others)}")
        rows, prompt_of_row = _first_rows(given["input_ids"], given["attention_mask"])
        input_ids = given["input_ids"][rows]
        attention_mask = given["attention_mask"][rows]

        cache = None
        if self._read is not None:
            cache = self._read.cache_of(input_ids, attention_mask)
        if cache is None and len(rows) == len(prompt_of_row):
            return None
        if cache is None:
            config = given["generation_config"]
            cache = _cache_of_prompts(model, generate, input_ids, attention_mask, config)
            if self._remembers and self._read is None:
                self._read = PromptsRead(input_ids, attention_mask, copy.deepcopy(cache))

        cache.batch_select_indices(prompt_of_row)
        return cache

    def _say_once(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            self._tell(reason)


@torch.no_grad()
def read_prompts(
    model: Any,
    generate: Callable[..., Any],
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config: GenerationConfig,
) -> DynamicCache:
    """The cache of all rows without their last tokens, with each different prompt read once.

    `generate` takes up where the cache ends, and reads the last token of each row.

    Args:
        model: A causal language model.
        generate: Its own `generate`.
        input_ids: Prompts, padded on the left; equal ones are neighbours. Shape (rows, length).
        attention_mask: 0 where padding is; the same shape.
        generation_config: How completions will be generated.

    Raises:
        CannotReadOnceError: The model or the settings don't allow it.
    """
    rows, prompt_of_row = _first_rows(input_ids, attention_mask)
    cache = _cache_of_prompts(
        model, generate, input_ids[rows], attention_mask[rows], generation_config
    )
    cache.batch_select_indices(prompt_of_row)
    return cache


@dataclass(frozen=True)
class PromptsRead:
    """Prompts and the cache of all their tokens except the last.

    Args:
        input_ids: The prompts, padded on the left, shape (P, length).
        attention_mask: 0 where padding is; the same shape.
        cache: Their keys and values.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    cache: DynamicCache

    def cache_of(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> DynamicCache | None:
        """A cache of these prompts, which may be fewer and with less padding.

        Args:
            input_ids: Prompts, padded on the left.
            attention_mask: 0 where padding is.

        Returns:
            One of its own, or None where one of them was not read.
        """
        length = input_ids.shape[1]
        cut = self.input_ids.shape[1] - length
        if cut < 0:
            return None
        same_P_Q = (input_ids[:, None] == self.input_ids[None, :, cut:]).all(dim=-1)
        same_P_Q &= (attention_mask[:, None] == self.attention_mask[None, :, cut:]).all(dim=-1)
        same_P_Q &= ~self.attention_mask[:, :cut].any(dim=1)
        if not same_P_Q.any(dim=1).all():
            return None

        # Padding stands at the beginning, so what is cut off there was never looked at.
        cache = copy.deepcopy(self.cache)
        cache.batch_select_indices(same_P_Q.int().argmax(dim=1))
        layers: Any = cache.layers  # of keys and values, or they would not have been read
        for layer in layers:
            layer.keys = layer.keys[..., 1 - length :, :]
            layer.values = layer.values[..., 1 - length :, :]
            if isinstance(layer, DynamicSlidingWindowLayer):
                layer.cumulative_length = length - 1
        return cache


@torch.no_grad()
def _cache_of_prompts(
    model: Any,
    generate: Callable[..., Any],
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config: GenerationConfig,
) -> DynamicCache:
    """The cache of different prompts without their last tokens, as `read_prompts` says it."""
    if reason := why_each_is_read(model, generation_config):
        raise CannotReadOnceError(reason)
    if not attention_mask[:, :-1].any(dim=1).all():
        raise CannotReadOnceError("a prompt has one token, which each of its rollouts reads anyway")

    cache = DynamicCache(config=model.config)
    generate(
        input_ids=input_ids[:, :-1],
        attention_mask=attention_mask[:, :-1],
        past_key_values=cache,
        generation_config=_one_token(generation_config),
    )

    # The token that `generate` made of them is thrown away; the cache has not seen it.
    read = {_tokens_in(layer) for layer in cache.layers}
    if read != {input_ids.shape[1] - 1}:
        raise CannotReadOnceError(
            f"{type(model).__name__} does not leave what it has read in the cache that it is given"
        )
    return cache


def why_each_is_read(model: Any, generation_config: GenerationConfig) -> str:
    """Why prompts can't be read once for all their rows; "" if they can."""
    for name in ("num_beams", "num_return_sequences"):
        if (value := setting(generation_config, model, name) or 1) != 1:
            return f"{name}={value}"
    if setting(generation_config, model, "use_cache") is False:
        return "use_cache=False"
    for name in _OTHER_READINGS:
        if value := setting(generation_config, model, name):
            return f"{name}={value!r}"
    return _why_of_cache(model) or _why_of_rows(model)


def setting(generation_config: GenerationConfig, model: Any, name: str) -> Any:
    """A setting of a call: where the config has none, the model's own, as in transformers."""
    value = getattr(generation_config, name, None)
    return getattr(model.generation_config, name, None) if value is None else value


def _why_of_cache(model: Any) -> str:
    """The part of a model's cache that can't be copied from row to row; "" if there is none."""
    name = type(model).__name__
    config = model.config
    if config.is_encoder_decoder:
        return f"{name} has an encoder"
    if config.get_text_config() is not config:
        return f"{name} reads images, too, and its places of tokens are not those of text"
    without_adapters = model.get_base_model() if hasattr(model, "get_base_model") else model
    if "past_key_values" not in inspect.signature(without_adapters.forward).parameters:
        return f"{name} takes no cache of keys and values"
    if getattr(model, "_is_stateful", False):
        return f"{name} keeps a state beside keys and values"
    adapters = getattr(model, "peft_config", {})
    if isinstance(adapters, dict) and any(
        getattr(adapter, "is_prompt_learning", False) for adapter in adapters.values()
    ):
        return "a trained prompt stands in front of each row"

    layers = DynamicCache(config=config).layers
    others = {type(layer).__name__ for layer in layers if type(layer) not in _KEYS_AND_VALUES}
    if others or not layers:
        return f"the cache of {name} has layers of another kind: {', '.join(sorted(others))}"
    return ""


def _why_of_rows(model: Any) -> str:
    """The reason why rows of one prompt differ while it is read, or all processes read together."""
    if _is_spread(model):
        return _SPREAD
    if chance := _chance_in(model):
        return (
            f"while the model is in training mode, {chance} draws for each row of a prompt"
            " (disable_dropout=True switches dropout off)"
        )
    return ""


def _is_spread(model: Any) -> bool:
    """Whether the weights are spread over processes: by ZeRO-3, FSDP, FSDP2 or tensor parallelism.

    The last two hold them as DTensors.
    """
    return (
        is_deepspeed_zero3_enabled()
        or any(isinstance(module, FullyShardedDataParallel) for module in model.modules())
        or any(hasattr(parameter, "device_mesh") for parameter in model.parameters())
    )


def _chance_in(model: Any) -> str:
    """A part of the model that draws random numbers as it reads; "" if none does.

    It is a module of dropout, or a probability that a module holds for a function of dropout.
    """
    for name, module in model.named_modules():
        if not module.training:
            continue
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            return name
        for attribute, value in vars(module).items():
            if isinstance(value, float) and value > 0 and _is_of_chance(attribute):
                return f"{name}.{attribute}"
    return ""


def _is_of_chance(attribute: str) -> bool:
    return "drop" in attribute or "jitter" in attribute


def _first_rows(
    input_ids: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row of each prompt, and the number of the prompt of each row.

    Neighbours are rows of one prompt if they are equal with their padding.
    """
    same_ids = (input_ids[1:] == input_ids[:-1]).all(dim=1)
    same_mask = (attention_mask[1:] == attention_mask[:-1]).all(dim=1)
    is_first = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
    is_first[1:] = ~(same_ids & same_mask)
    return is_first.nonzero()[:, 0], is_first.cumsum(dim=0) - 1


def _tokens_in(layer: Any) -> int:
    """The number of tokens that a layer of a cache has seen."""
    return int(layer.get_seq_length()) if layer.is_initialized else 0


def _one_token(generation_config: GenerationConfig) -> GenerationConfig:
    """The settings by which prompts are read: one token, without drawing a random number.

    What samples is set to what it is by default, so that transformers does not warn that the
    model's own settings have no effect.
    """
    return GenerationConfig(
        max_new_tokens=1,
        do_sample=False,
        temperature=1.0,
        top_p=1.0,
        top_k=50,
        pad_token_id=generation_config.pad_token_id,
        eos_token_id=generation_config.eos_token_id,
    )
