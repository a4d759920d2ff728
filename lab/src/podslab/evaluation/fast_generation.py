"""Sampling many completions of few prompts, with transformers' own `generate`.

`generate` on n copies of a prompt reads the prompt n times, and decodes every row until the last
one ends. Here each prompt is read once (`podsrl.trl.one_reading`), and when enough rows have ended
they leave the batch. The distribution is the same; the random numbers are not.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from podsrl.trl.one_reading import CannotReadOnceError, read_prompts, setting, why_each_is_read
from podsrl.trl.seam import in_front

#: Rows leave the batch when this share of it has ended. Each time costs a copy of the cache.
LEAVING_SHARE = 0.125

#: Settings whose meaning depends on where a call of `generate` began, or that return more.
_WHOLE_CALLS_ONLY = (
    "begin_suppress_tokens",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "max_time",
    "min_length",
    "min_new_tokens",
    "return_dict_in_generate",
    "stop_strings",
    "watermarking_config",
)


@torch.no_grad()
def generate(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config: GenerationConfig,
    original: Callable[..., torch.Tensor] | None = None,
) -> torch.Tensor:
    """Generate as `model.generate` does, with equal prompts read once where `can_share` holds.

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
    given = {"input_ids": input_ids, "attention_mask": attention_mask}
    if not can_share(model, generation_config):
        return original(**given, generation_config=generation_config)
    try:
        cache = read_prompts(model, original, **given, generation_config=generation_config)
    except CannotReadOnceError:
        return original(**given, generation_config=generation_config)

    config = copy.deepcopy(generation_config)
    ends = torch.tensor(config.eos_token_id, device=input_ids.device).reshape(-1)
    padding = int(ends[0]) if config.pad_token_id is None else config.pad_token_id

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

    It does where a prompt can be read once, a row says by itself when it ends, and no setting is
    about a whole call.
    """
    ends = (
        generation_config.max_new_tokens is not None and generation_config.eos_token_id is not None
    )
    of_whole_calls = any(setting(generation_config, model, name) for name in _WHOLE_CALLS_ONLY)
    return ends and not of_whole_calls and not why_each_is_read(model, generation_config)


@contextmanager
def generating_fast(model: Any) -> Iterator[None]:
    """`model.generate`, called inside as TRL calls it, reads each prompt once.

    Calls with anything else than token ids, their mask and a config go to the model as they are.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile has wrapped
    original = MethodType(type(model).generate, model)

    def fast(**kwargs: Any) -> Any:
        if set(kwargs) != {"input_ids", "attention_mask", "generation_config"}:
            return original(**kwargs)
        return generate(model, **kwargs, original=original)

    with in_front(model, generate=fast):  # TRL generates with nothing but this method of the model
        yield


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
