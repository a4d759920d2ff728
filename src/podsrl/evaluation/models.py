"""Loading what is to be measured."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from podsrl import tiny
from podsrl.errors import InvalidInputError
from podsrl.evaluation.sampling import Progress


def load_model(name: str, progress: Progress = iter) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, on the GPU where there is one.

    Args:
        name: a folder, a name on the hub, a LoRA checkpoint (its base model is loaded too), or
            "tiny" for the embedded model.
        progress: shown while the embedded model is built.

    Raises:
        InvalidInputError: there is no such model.
    """
    path = str(tiny.get_model(progress=progress)) if name == "tiny" else name
    folder = Path(path).expanduser()
    if folder.exists() and not any(
        (folder / file).is_file() for file in ("config.json", "adapter_config.json")
    ):
        raise InvalidInputError(
            f"{folder} holds no model: neither config.json nor adapter_config.json is there"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    adapter = folder / "adapter_config.json"
    base = json.loads(adapter.read_text())["base_model_name_or_path"] if adapter.is_file() else path
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        model: Any = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise InvalidInputError(f"can't load the model {name!r}: {first_line}") from error
    if adapter.is_file():
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, path)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(device), tokenizer
