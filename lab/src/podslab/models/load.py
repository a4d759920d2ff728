"""Loading what is to be measured."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from podslab.evaluation.sampling import Progress
from podslab.models import resolve
from podsrl.errors import InvalidInputError


def load_model(name: str, progress: Progress = iter) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, on the GPU where there is one.

    Args:
        name: A folder, a name on the hub, a LoRA checkpoint (its base model is loaded too), or a
            model of the laboratory, "tiny" or "smollm2".
        progress: It is shown while "tiny" is built.

    Raises:
        InvalidInputError: There is no such model.
        MissingDependencyError: The packages that "smollm2" needs are not installed.
    """
    path = resolve(name, progress=progress)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype="auto")
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise InvalidInputError(f"can't load the model {name!r}: {first_line}") from error

    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device), tokenizer
