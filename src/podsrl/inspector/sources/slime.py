"""slime's `--save-debug-rollout-data` or `--dump-details`: `<number>.pt` for each rollout.

A file is a dictionary with `rollout_id` and `samples`, each of which is a dictionary of
`slime.utils.types.Sample`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

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
        return listed(numbered(self.path, _FILE), settled=True)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """slime's samples; the file is read without running any code that it may hold."""
        with needed("trl"):
            import torch

        # Only plain values are unpickled: a file of strangers can't run code.
        try:
            saved = torch.load(path, map_location="cpu", weights_only=True)
            samples = saved["samples"]
        except Exception as error:
            raise InvalidInputError(
                f"{path} is no file of slime's debug rollout data that can be read safely: {error}"
            ) from error

        for sample in samples:
            metadata = sample.get("metadata") or {}
            reward = sample.get("reward")
            parts = {}
            if isinstance(reward, Mapping):
                parts = {REWARD_PREFIX + str(k): v for k, v in reward.items() if is_number(v)}
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
                    "advantage": metadata.get("pods_advantage"),
                    "kept": True if "pods_advantage" in metadata else None,
                    **parts,
                },
            )


def slime_folder(folder: Path) -> Path | None:
    """The folder with slime's files, if a folder is one or has one; a checkpoint is none."""
    if (folder / "rollout_data").is_dir():  # of --dump-details
        return folder / "rollout_data"
    is_checkpoint = (folder / "trainer_state.json").exists() or folder.name.startswith("checkpoint")
    return folder if not is_checkpoint and numbered(folder, _FILE) else None
