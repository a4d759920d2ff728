"""Sampling many completions of few prompts, with transformers' own `generate`.

`generate` on n copies of a prompt reads the prompt n times, and decodes every row until the last
one ends. Here each prompt is read once and its cache is copied to its rows, and when enough rows
have ended they leave the batch. The distribution is the same; the random numbers are not.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import DynamicCache, GenerationConfig, StoppingCriteria, StoppingCriteriaList
from transformers.cache_utils import DynamicLayer
from transformers.integrations import is_deepspeed_zero3_enabled

#: Rows leave the batch when this share of it has ended. Each time costs a copy of the cache.
LEAVING_SHARE = 0.125

#: Settings whose meaning depends on where a call of `generate` began, or that return more.
_WHOLE_CALLS_ONLY = (
    "assistant_early_exit",
    "begin_suppress_tokens",
    "cache_implementation",
    "dola_layers",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "guidance_scale",
    "max_time",
    "min_length",
    "min_new_tokens",
    "penalty_alpha",
    "prompt_lookup_num_tokens",
    "return_dict_in_generate",
    "stop_strings",
    "watermarking_config",
)
#: Architectures that keep a state, or whose caches can't be copied between rows.
_NO_COPIES = ("rwkv", "mpt", "openai-gpt")


@torch.no_grad()
def generate(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config: GenerationConfig,
    original: Callable[..., torch.Tensor] | None = None,
) -> torch.Tensor:
    """`model.generate` for rows of which many are equal; itself where `can_share` does not hold.

    Args:
        model: A causal language model.
        input_ids: Prompts, padded on the left; shape (rows, prompt length).
        attention_mask: 0 where padding is; the same shape.
        generation_config: How to sample.
        original: The model's own `generate`, where another stands in its place.

    Returns:
        Prompts and completions; shape (rows, prompt length + longest completion), the rest of a row
        padding, as `model.generate` gives them.
    """
    original = original or model.generate
    if input_ids.shape[1] < 2 or not can_share(model, generation_config):
        return original(
            input_ids=input_ids, attention_mask=attention_mask, generation_config=generation_config
        )
    config = copy.deepcopy(generation_config)
    ends = torch.tensor(config.eos_token_id, device=input_ids.device).reshape(-1)
    padding = int(ends[0]) if config.pad_token_id is None else config.pad_token_id
    cache = DynamicCache(config=model.config)
    _read_prompts(cache, original, input_ids, attention_mask, config)

    rows, length = input_ids.shape
    longest = length + config.max_new_tokens
    whole = input_ids.new_full((rows, longest), padding)
    whole[:, :length] = input_ids

    # The rows that have not ended, with their tokens and mask so far; the cache has as many rows.
    going = torch.arange(rows, device=input_ids.device)
    ids = input_ids
    mask = attention_mask
    while len(going) and length < longest:
        config.max_new_tokens = longest - length
        ids = original(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            generation_config=config,
            stopping_criteria=StoppingCriteriaList([_EnoughEnded(ends)]),
        )
        whole[going, : ids.shape[1]] = ids
        new = ids[:, length:]
        length = ids.shape[1]

        # Rows that have ended leave the batch.
        has_ended = torch.isin(new, ends).any(dim=1)
        stay = (~has_ended).nonzero()[:, 0]
        mask = torch.cat([mask, mask.new_ones(new.shape)], dim=1)[stay]
        ids = ids[stay]
        going = going[stay]
        cache.batch_select_indices(stay)
    return whole[:, :length]


def can_share(model: Any, generation_config: GenerationConfig) -> bool:
    """Whether `generate` here does what `model.generate` would.

    It does for sampling and greedy decoding from a decoder whose layers all attend to everything.
    Models whose weights are spread over processes are left to `model.generate`, since every
    process must take the same number of steps.
    """
    settings = _Settings(generation_config, model.generation_config)
    if not settings.draw_token_by_token or not settings.end_by_themselves:
        return False
    return _attends_to_everything(model) and not _is_spread(model)


class _Settings:
    """The settings of a call: what it does not give is the model's own, as in transformers."""

    def __init__(self, given: GenerationConfig, of_model: GenerationConfig) -> None:
        self.given = given
        self.of_model = of_model

    def __getitem__(self, name: str) -> Any:
        value = getattr(self.given, name, None)
        return getattr(self.of_model, name, None) if value is None else value

    @property
    def draw_token_by_token(self) -> bool:
        """Whether they ask for sampling or greedy decoding, and for nothing of a whole call."""
        one_of_each = all((self[name] or 1) == 1 for name in ("num_beams", "num_return_sequences"))
        return (
            one_of_each
            and not any(self[name] for name in _WHOLE_CALLS_ONLY)
            and self["use_cache"] is not False
        )

    @property
    def end_by_themselves(self) -> bool:
        """Whether the call itself says when a row ends."""
        return self.given.max_new_tokens is not None and self.given.eos_token_id is not None


def _attends_to_everything(model: Any) -> bool:
    """Whether it is a decoder of text whose cache is what all tokens before left there."""
    config = model.config
    if config.model_type in _NO_COPIES or config.is_encoder_decoder:
        return False
    if config.get_text_config() is not config:
        return False  # images too: their tokens' positions are not those of their places
    layers = DynamicCache(config=config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def _is_spread(model: Any) -> bool:
    """Whether the weights are spread over processes: by ZeRO-3, FSDP, FSDP2 or tensor parallelism.

    The last two hold them as DTensors.
    """
    return (
        is_deepspeed_zero3_enabled()
        or any(isinstance(module, FullyShardedDataParallel) for module in model.modules())
        or any(hasattr(parameter, "device_mesh") for parameter in model.parameters())
    )


@contextmanager
def generating_fast(model: Any) -> Iterator[None]:
    """`model.generate`, called inside as TRL calls it, reads each prompt once.

    Calls with anything else than token ids, their mask and a config go to the model as they are.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile has wrapped
    original = model.generate

    def fast(**kwargs: Any) -> Any:
        if set(kwargs) != {"input_ids", "attention_mask", "generation_config"}:
            return original(**kwargs)
        return generate(model, **kwargs, original=original)

    model.generate = fast  # TRL generates with nothing but this method of the model
    try:
        yield
    finally:
        del model.generate  # the class's own is back


class _EnoughEnded(StoppingCriteria):
    """Stops the whole batch once a share of its rows has ended."""

    def __init__(self, ends: torch.Tensor) -> None:
        self.ends = ends
        self.ended: torch.Tensor | None = None

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        last = torch.isin(input_ids[:, -1], self.ends)
        self.ended = last if self.ended is None else self.ended | last
        enough = self.ended.sum() >= LEAVING_SHARE * len(self.ended)
        return enough.expand(len(self.ended))


def _read_prompts(
    cache: DynamicCache,
    original: Callable[..., torch.Tensor],
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    config: GenerationConfig,
) -> None:
    """Put all prompts except their last token into the cache, each different prompt read once.

    `generate` reads them, so that positions and masks are those of the model's own; the token that
    it must make of them is thrown away.
    """
    # Prompts are equal if their padding is, too.
    ids_and_mask = torch.cat([input_ids, attention_mask], dim=1)
    different, row_of_each = torch.unique(ids_and_mask, dim=0, return_inverse=True)
    ids, mask = different.tensor_split(2, dim=1)

    one_token = copy.deepcopy(config)
    one_token.update(max_new_tokens=1, do_sample=False, temperature=None, top_p=None, top_k=None)
    original(input_ids=ids, attention_mask=mask, past_key_values=cache, generation_config=one_token)

    # `generate` takes up where the cache ends, and needs a token to go on from.
    cache.crop(-1)
    cache.batch_select_indices(row_of_each)
