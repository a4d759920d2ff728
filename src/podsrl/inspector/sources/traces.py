"""Episodes of verifiers 0.4: `traces.jsonl` of an evaluation, and of each step of a prime-rl run.

A line is an episode: its task, its group, the run and step that it was made for, and the traces of
its agents. A trace has a tree of messages, of which those that a model made are `sampled` and have
token log-probabilities, and rewards with their weights.

prime-rl writes `rollouts/step_N/train/all/traces.jsonl`, every episode as it arrives, and
`rollouts/step_N/train/effective/traces.jsonl`, the episodes that are trained on: they are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from podsrl.inspector.fields import split_conversation, weighted
from podsrl.inspector.reading import rows_of_file
from podsrl.inspector.sources.base import (
    KnownFile,
    KnownFormat,
    RolloutFile,
    entries,
    first_line,
    listed,
)
from podsrl.rollout_log.columns import REWARD_PREFIX

_FILE = "traces.jsonl"
#: An episode may be trained on some steps after it arrived, as prime-rl generates ahead.
_STEPS_AHEAD = 8
_WORDS = {
    "prompt": "the messages until the model first speaks",
    "completion": "the last branch of the trace's messages, from there on",
    "reward": "`rewards`, by their weights",
    "group": "`group.id`, else the task",
    "step": "`run.work.step`, else all 1",
}


class VerifiersTraces(KnownFile):
    """The file of an evaluation, or its folder."""

    format = "verifiers' traces"
    file_name = _FILE
    words: ClassVar[Mapping[str, str]] = _WORDS

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """A rollout for each trace that is trained on, or that was evaluated."""
        for episode in rows_of_file(path):
            for trace, rollout in rollouts_of_episode(episode):
                yield self.as_said(trace, rollout)


class PrimeRun(KnownFormat):
    """A prime-rl run, whose effective rollouts are the kept ones."""

    format = "prime-rl's rollouts"
    note = "kept is what prime-rl calls effective: admitted, without errors, and trained on"
    words: ClassVar[Mapping[str, str]] = {**_WORDS, "step": "the step's folder"}

    def files(self) -> list[RolloutFile]:
        """One file for each step, with all its episodes; it changes with its effective ones."""
        found = []
        for number, folder in _steps(self.path):
            for file in listed([folder / "train" / "all" / "traces.jsonl"]):
                effective = listed(self._effective(number))
                modified = max([file.modified, *(other.modified for other in effective)])
                size = file.size + sum(other.size for other in effective)
                found.append(RolloutFile(file.path, modified, size))
        return found

    def step_of(self, file: RolloutFile) -> int | None:
        """The step of its folder, unless the user named a field."""
        return None if self.options.fields.step else _number(file.path.parents[2].name)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """A rollout for each trace, with whether it was effective; so far none may be."""
        step = _number(path.parents[2].name)
        kept = set()
        for file in filter(Path.is_file, self._effective(step)):
            for episode in rows_of_file(file):
                kept |= {trace.get("id") for trace in episode.get("traces") or ()}

        for episode in rows_of_file(path):
            for trace, rollout in rollouts_of_episode(episode):
                rollout["step"] = step
                rollout["kept"] = trace.get("id") in kept
                yield self.as_said(trace, rollout)

    def _effective(self, step: int) -> list[Path]:
        """The files in which an episode that arrived in a step may be."""
        rollouts = self.path / "rollouts"
        return [
            rollouts / f"step_{later}" / "train" / "effective" / "traces.jsonl"
            for later in range(step, step + _STEPS_AHEAD + 1)
        ]


def is_prime(folder: Path) -> bool:
    """Whether a folder is a prime-rl run's."""
    return any((step / "train" / "all" / "traces.jsonl").is_file() for _, step in _steps(folder))


def is_traces(path: Path) -> bool:
    """Whether a file, or the file traces.jsonl of a folder, has episodes."""
    row = first_line(path, _FILE)
    return row is not None and isinstance(row.get("traces"), list) and "task" in row


def rollouts_of_episode(
    episode: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """The traces of an episode that has a reward, each with its rollout."""
    group = (episode.get("group") or {}).get("id")
    work = (episode.get("run") or {}).get("work") or {}
    traces = episode.get("traces") or ()
    for trace in traces:
        agent = trace.get("agent") or {}
        if not agent.get("trainable", True):
            continue

        task = (trace.get("task") or episode.get("task") or {}).get("data") or {}
        rewards = {name: one for name, one in (trace.get("rewards") or {}).items() if one}
        scores = {name: one.get("score") for name, one in rewards.items()}
        weights = {name: one.get("weight", 1.0) for name, one in rewards.items()}

        nodes = _last_branch(trace.get("nodes") or ())
        prompt, completion = split_conversation([node.get("message") for node in nodes])
        several = len({(other.get("agent") or {}).get("name") for other in traces}) > 1
        key = group if group is not None else task.get("idx")
        if several and key is not None:
            key = f"{key} {agent.get('name')}"
        yield (
            trace,
            {
                "step": work.get("step"),
                "group": key,
                "prompt": prompt or task.get("prompt"),
                "completion": completion or [],
                "reward": weighted(scores, weights),
                "answer": task.get("answer"),
                "tokens": sum(sum(node.get("mask") or ()) for node in nodes),
                "advantage": _advantage(nodes),
                "cut_off": trace.get("stop_condition") in ("length", "max_tokens", "truncated"),
                **_tokens_of(nodes),
                **{REWARD_PREFIX + name: score for name, score in scores.items()},
            },
        )


def _last_branch(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The path of the tree that ends with its last message, from the root on."""
    branch: list[Mapping[str, Any]] = []
    place = len(nodes) - 1 if nodes else None
    while place is not None and 0 <= place < len(nodes) and len(branch) <= len(nodes):
        branch.append(nodes[place])
        place = nodes[place].get("parent")
    return branch[::-1]


def _advantage(nodes: Sequence[Mapping[str, Any]]) -> float | None:
    """The advantage of the tokens, if it is one for all of them."""
    values = {value for node in nodes for value in node.get("advantages") or ()}
    return values.pop() if len(values) == 1 else None


def _tokens_of(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The log-probabilities of the last answer's tokens."""
    sampled = [node for node in nodes if node.get("sampled") and node.get("logprobs")]
    return {"token_logprobs": sampled[-1]["logprobs"]} if sampled else {}


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """The folders of the steps, by number."""
    found = [
        (_number(entry.name), Path(entry.path))
        for entry in entries(folder / "rollouts")
        if entry.name.startswith("step_") and entry.name[5:].isdigit()
    ]
    return sorted(found)


def _number(name: str) -> int:
    return int(name.removeprefix("step_"))
