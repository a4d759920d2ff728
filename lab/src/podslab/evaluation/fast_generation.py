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
_WHOLE_CALLS_ONLY = """
    min_length min_new_tokens stop_strings max_time cache_implementation return_dict_in_generate
    prompt_lookup_num_tokens begin_suppress_tokens forced_bos_token_id forced_eos_token_id
    exponential_decay_length_penalty watermarking_config guidance_scale penalty_alpha dola_layers
    assistant_early_exit encoder_no_repeat_ngram_size encoder_repetition_penalty
""".split()  # noqa: SIM905 (one name a line would be twenty)
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
        model: a causal language model.
        input_ids: prompts, padded on the left; shape (rows, prompt length).
        attention_mask: 0 where padding is; the same shape.
        generation_config: how to sample.
        original: the model's own `generate`, where another stands in its place.

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
    cache = DynamicCache(config=model.config)
    _fill(cache, original, input_ids, attention_mask, config)
    rows, length = input_ids.shape
    padding = config.pad_token_id if config.pad_token_id is not None else int(ends[0])
    whole = input_ids.new_full((rows, length + config.max_new_tokens), padding)
    whole[:, :length] = input_ids
    going = torch.arange(rows, device=input_ids.device)
    ids, mask, longest = input_ids, attention_mask, length
    while len(going) and longest < whole.shape[1]:
        config.max_new_tokens = whole.shape[1] - longest
        ids = original(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            generation_config=config,
            stopping_criteria=StoppingCriteriaList([_EnoughEnded(ends)]),
        )
        whole[going, : ids.shape[1]] = ids
        new = ids[:, longest:]
        longest = ids.shape[1]
        stay = (~torch.isin(new, ends).any(dim=1)).nonzero()[:, 0]
        mask = torch.cat([mask, mask.new_ones(new.shape)], dim=1)[stay]
        going, ids = going[stay], ids[stay]
        cache.batch_select_indices(stay)
    return whole[:, :longest]


def can_share(model: Any, generation_config: GenerationConfig) -> bool:
    """Whether `generate` here does what `model.generate` would.

    It does for sampling and greedy decoding from a decoder whose layers all attend to everything.
    Models whose weights are spread over processes are left to `model.generate`, since every
    process must take the same number of steps.
    """
    config = generation_config

    def setting(name: str) -> Any:  # transformers takes what is not given from the model's own
        given = getattr(config, name, None)
        return getattr(model.generation_config, name, None) if given is None else given

    sampling_only = all((setting(name) or 1) == 1 for name in ("num_beams", "num_return_sequences"))
    whole = any(map(setting, _WHOLE_CALLS_ONLY))
    ends = config.max_new_tokens is not None and config.eos_token_id is not None
    if not sampling_only or whole or not ends or setting("use_cache") is False:
        return False
    if model.config.model_type in _NO_COPIES:
        return False
    if model.config.get_text_config() is not model.config:
        return False  # images too: their tokens' positions are not those of their places
    if model.config.is_encoder_decoder or is_deepspeed_zero3_enabled():
        return False
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        return False
    if any(hasattr(parameter, "device_mesh") for parameter in model.parameters()):
        return False  # a DTensor, of FSDP2 or tensor parallelism
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


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


def _fill(
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
    both = torch.cat([input_ids, attention_mask], dim=1)
    prompts, row_of = torch.unique(both, dim=0, return_inverse=True)
    ids, mask = prompts.tensor_split(2, dim=1)
    once = copy.deepcopy(config)
    once.update(max_new_tokens=1, do_sample=False, temperature=None, top_p=None, top_k=None)
    original(input_ids=ids, attention_mask=mask, past_key_values=cache, generation_config=once)
    cache.crop(-1)  # generate takes up where the cache ends, and needs a token to go on from
    cache.batch_select_indices(row_of)
