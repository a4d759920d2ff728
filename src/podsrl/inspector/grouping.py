"""Grouping the rollouts of a step by prompt, where the file may not say it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby


@dataclass
class Groups:
    """The groups of a file, numbered within their step in the order in which they come.

    Args:
        places: The places in the file of each group's rollouts, by step and number of the group.
        doubtful: The groups of each step that may be several, with how many rollouts they have and
            how many the others have.
    """

    places: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    doubtful: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


def group_rollouts(steps: Sequence[int], keys: Sequence[str], by_text: bool) -> Groups:
    """The groups of a file's rollouts.

    Two questions of a step may have the same text. Where groups are known by their text, and a text
    comes in several blocks, each as large as the blocks of most others, each block is a group.
    Where they are mixed, or lie side by side, a group that is twice or more as large as the usual
    one is doubtful.

    Args:
        steps: The step of each rollout, in the file's order.
        keys: What the group of each rollout is known by.
        by_text: Whether that is the text of the prompt, for want of anything better.

    >>> group_rollouts([1] * 6, list("aabbaa"), by_text=True).places
    {(1, 0): [0, 1], (1, 1): [2, 3], (1, 2): [4, 5]}
    """
    found = Groups()
    places_of_step: dict[int, list[int]] = {}
    for place, step in enumerate(steps):
        places_of_step.setdefault(step, []).append(place)

    for step, places in places_of_step.items():
        blocks = _blocks(places, keys)
        apart = _keys_apart(blocks, keys) if by_text else set()

        of_key: dict[object, list[int]] = {}
        for number, block in enumerate(blocks):
            key = keys[block[0]]
            of_key.setdefault((key, number) if key in apart else key, []).extend(block)
        for number, group in enumerate(of_key.values()):
            found.places[step, number] = group
        if by_text:
            found.doubtful |= _doubtful(step, list(of_key.values()))
    return found


def are_split(groups: Groups, prompts: Sequence[object]) -> bool:
    """Whether every group has one rollout, though a step has several of one prompt.

    Args:
        groups: The groups of a file.
        prompts: What tells the prompt of each rollout, in the file's order.
    """
    if any(len(places) > 1 for places in groups.places.values()):
        return False
    of_steps = [(step, prompts[place]) for (step, _), [place] in groups.places.items()]
    return len(set(of_steps)) < len(of_steps)


def _blocks(places: Sequence[int], keys: Sequence[str]) -> list[list[int]]:
    """The places of a step in blocks of equal keys that lie side by side."""
    return [list(block) for _, block in groupby(places, key=lambda place: keys[place])]


def _keys_apart(blocks: Sequence[Sequence[int]], keys: Sequence[str]) -> set[str]:
    """The keys whose several blocks are a group each.

    The last block of a file may be shorter: it may be cut while it is written.
    """
    sizes = Counter(map(len, blocks))
    [(usual, times)] = sizes.most_common(1)
    if usual < 2 or 2 * times <= len(blocks):
        return set()

    of_key: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        is_cut = number == len(blocks) - 1 and len(block) < usual
        of_key.setdefault(keys[block[0]], []).append(usual if is_cut else len(block))
    return {
        key for key, found in of_key.items() if len(found) > 1 and all(n == usual for n in found)
    }


def _doubtful(step: int, groups: Sequence[Sequence[int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The groups of a step that are several times as large as most, with both sizes."""
    [(usual, times)] = Counter(map(len, groups)).most_common(1)
    if usual < 2 or 2 * times <= len(groups):
        return {}
    return {
        (step, number): (len(group), usual)
        for number, group in enumerate(groups)
        if len(group) > usual and len(group) % usual == 0
    }
