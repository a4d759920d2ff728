"""Down-sampling of rollouts that are already in a file."""

import json
from pathlib import Path

from podsrl.downsampling import downsample
from podsrl.errors import InvalidInputError
from podsrl.tasks.data_files import read_jsonl


def select_lines(
    path: Path, m: int, rule: str, group_field: str, reward_field: str, seed: int | None
) -> tuple[list[str], int, int]:
    """The lines of a JSONL file that a rule keeps, in the order of the file.

    Groups may differ in size; one of m rollouts or fewer is kept whole. A reward of null means
    that the rollout could not be scored.

    Args:
        path: one JSON object with a group and a reward per line.
        m: rollouts to keep per group.
        rule: a rule, as in `downsample`.
        group_field: field whose value, of any JSON type, says which group a rollout is of.
        reward_field: field with the reward.
        seed: as in `downsample`.

    Returns:
        The kept lines, the number of groups, and the number of rollouts read.

    Raises:
        InvalidInputError: a damaged line, a missing field, a reward that is no finite number.
    """
    rows = read_jsonl(path, required=[group_field])
    groups: dict[str, list[int]] = {}
    rewards: list[float | None] = []
    for i, row in enumerate(rows):
        reward = row.get(reward_field, "missing")
        if reward is not None and (
            isinstance(reward, bool) or not isinstance(reward, (int, float))
        ):
            raise InvalidInputError(
                f"{path}, rollout {i + 1}: {reward_field!r} must be a number or null;"
                f" got {reward!r}"
            )
        rewards.append(reward)
        groups.setdefault(json.dumps(row[group_field], sort_keys=True), []).append(i)
    kept: list[int] = []
    for members in groups.values():
        size = min(m, len(members)) if m >= 1 else m
        chosen = downsample([rewards[i] for i in members], size, rule, seed)
        kept.extend(members[j] for j in chosen)
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return [lines[i] for i in sorted(kept)], len(groups), len(rows)
