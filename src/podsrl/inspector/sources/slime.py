"""slime's `--save-debug-rollout-data` or `--dump-details`: `<number>.pt` for each rollout.

A file is a dictionary with `rollout_id` and `samples`, each of which is a dictionary of
`slime.utils.types.Sample`.
"""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from podsrl.errors import InvalidInputError, needed
from podsrl.inspector.sources.base import KnownFormat, RolloutFile, listed, numbered
from podsrl.rewards import is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

#: Those of evaluations are named eval_<number>.pt.
_FILE = r"(?!.*eval).*?(\d+)\.pt"


class SlimeDump(KnownFormat):
    """A folder of slime's files."""

    format = "slime's debug rollout data"
    note = "slime's files have the rollouts that it trains on; with podsrl these are the kept ones"
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "`prompt`",
        "completion": "`response`",
        "reward": "`reward`",
        "group": "`group_index`",
        "step": "`rollout_id` + 1",
    }

    def files(self) -> list[RolloutFile]:
        """The files of training, in the order of their numbers."""
        return listed(numbered(self.path, _FILE), in_place=True)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """slime's samples; the file is read without running any code that it may hold."""
        with needed("trl"):
            import torch

        # Only plain values are unpickled: a file of strangers can't run code.
        try:
            with torch.serialization.safe_globals(_numpys_values()):
                saved = torch.load(path, map_location="cpu", weights_only=True)
            samples = saved["samples"]
        except Exception as error:
            raise InvalidInputError(
                f"{path} is no file of slime's debug rollout data that can be read safely: {error}"
            ) from error

        for saved_sample in samples:
            sample = {name: _plain(value) for name, value in saved_sample.items()}
            metadata = sample.get("metadata") or {}
            reward = sample.get("reward")
            parts = {}
            if isinstance(reward, Mapping):
                reward = {str(name): _plain(value) for name, value in reward.items()}
                parts = {REWARD_PREFIX + name: v for name, v in reward.items() if is_number(v)}
                reward = reward.get("score", next(iter(parts.values()), None))
            yield self.as_said(
                sample,
                {
                    "step": int(saved.get("rollout_id", 0)) + 1,
                    "group": sample.get("group_index"),
                    "prompt": sample.get("prompt"),
                    "completion": sample.get("response"),
                    "reward": reward,
                    "answer": sample.get("label"),
                    "tokens": sample.get("response_length"),
                    "cut_off": sample.get("status") == "truncated",
                    "token_logprobs": sample.get("rollout_log_probs"),
                    "advantage": _plain(metadata.get("pods_advantage")),
                    "kept": True if "pods_advantage" in metadata else None,
                    **parts,
                },
            )


def slime_folder(folder: Path) -> Path | None:
    """The folder with slime's files, if a folder is one or has one; a checkpoint is none."""
    if (folder / "rollout_data").is_dir():  # of --dump-details
        return folder / "rollout_data"
    return folder if any(map(_is_dump, numbered(folder, _FILE))) else None


def _is_dump(path: Path) -> bool:
    """Whether a file begins as slime's do, by what torch packed; a checkpoint has other names."""
    try:
        with zipfile.ZipFile(path) as archive:
            [pickled] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            with archive.open(pickled) as file:
                return b"samples" in file.read(200)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile):
        return False


def _numpys_values() -> list[Any]:
    """What torch may call to make scalars and arrays of numpy's numbers; it runs no other code.

    Files of numpy 1 and 2 name the module differently. Arrays of objects are left out.
    """
    made = {"scalar": np.float64(0).__reduce__()[0], "_reconstruct": np.zeros(0).__reduce__()[0]}
    named = [
        (function, f"numpy.{core}.multiarray.{name}")
        for name, function in made.items()
        for core in ("core", "_core")
    ]
    numbers = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    return [*named, np.ndarray, np.dtype, *numbers]


def _plain(value: Any) -> Any:
    """A value of numpy's or torch's as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value
