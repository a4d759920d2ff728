"""TRL's own call of `generate`, handed to `podsrl.generation` where that does the same."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from podsrl.generation import generate


def generating_fast(model: Any) -> AbstractContextManager[Any]:
    """`model.generate`, called inside as TRL calls it, reads each prompt once.

    Calls with anything else than token ids, their mask and a config go to the model as they are.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile has wrapped
    original = model.generate

    def fast(**kwargs: Any) -> Any:
        if set(kwargs) != {"input_ids", "attention_mask", "generation_config"}:
            return original(**kwargs)
        with patch.object(model, "generate", original):
            return generate(model, **kwargs)

    return patch.object(model, "generate", fast)
