"""NeMo-RL's `train_data_step<K>.jsonl`, one for each step, in its log folder.

Each line is a rollout, as a batch of one: `content` (the texts of its messages), `rewards`,
`input_lengths`, `token_ids`, `token_loss_mask`, `sample_loss_mask`, `advantages`,
`generation_logprobs`, `prev_logprobs` (NeMo-RL 0.4 to 0.7). With dynamic sampling `rewards` are of
all rollouts, and `filtered_rewards` of those that are trained on.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from podsrl.inspector.fields import split_conversation
from podsrl.inspector.reading import rows_of_file
from podsrl.inspector.sources.base import KnownFormat, RolloutFile, listed, number_at_end, numbered

_FILE = r"train_data_step(\d+)\.jsonl"


class NemoRollouts(KnownFormat):
    """A log folder, or one of its files."""

    format = "NeMo-RL's train_data"
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "`content`, but for its last message",
        "completion": "the last message of `content`",
        "reward": "`rewards`",
        "group": "rollouts of one prompt text and step",
        "step": "the number in the file's name",
    }

    def files(self) -> list[RolloutFile]:
        """The files of training steps, in the order of their numbers."""
        return listed(numbered(self.path, _FILE))

    def step_of(self, file: RolloutFile) -> int | None:
        """The number in its name, unless the user named a field."""
        return None if self.options.fields.step else number_at_end(file.path.name)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rollouts of a step."""
        for line in rows_of_file(path):
            row = {name: _only(value) for name, value in line.items()}
            prompt, completion = _texts(row.get("content"))
            mask = row.get("token_loss_mask")
            yield self.as_said(
                row,
                {
                    "step": number_at_end(path.name),
                    "prompt": prompt,
                    "completion": completion,
                    "reward": row.get("rewards"),
                    "advantage": _of_tokens(row.get("advantages"), mask),
                    "tokens": sum(mask) if isinstance(mask, list) else None,
                    "token_logprobs": _sampled(row.get("generation_logprobs"), mask),
                },
            )


def is_nemo(path: Path) -> bool:
    """Whether a folder has such files, or a path is one."""
    return bool(numbered(path, _FILE))


def _only(value: Any) -> Any:
    """The one value of a batch of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _texts(content: Any) -> tuple[Any, Any]:
    """Prompt and completion, from the texts of the messages or from the messages themselves."""
    if not isinstance(content, list):
        return "", content
    if any(isinstance(message, Mapping) for message in content):
        return split_conversation(content)
    return "\n\n".join(map(str, content[:-1])), str(content[-1])


def _sampled(values: Any, mask: Any) -> list[Any] | None:
    """The values of the tokens that the model sampled."""
    if not isinstance(values, list) or not isinstance(mask, list):
        return None
    return [value for value, is_sampled in zip(values, mask, strict=False) if is_sampled]


def _of_tokens(values: Any, mask: Any) -> Any:
    """The advantage of a rollout, which is one for all of its tokens."""
    if not isinstance(values, list):
        return values
    sampled = set(_sampled(values, mask) or values)
    return sampled.pop() if len(sampled) == 1 else None
