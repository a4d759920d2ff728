"""A critic without a GPU: verl asks for flash attention whatever its config says."""

from transformers import AutoModelForTokenClassification

_from_pretrained = AutoModelForTokenClassification.from_pretrained


def _with_eager_attention(*args, **kwargs):
    return _from_pretrained(*args, **{**kwargs, "attn_implementation": "eager"})


AutoModelForTokenClassification.from_pretrained = _with_eager_attention
