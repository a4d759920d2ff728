"""Episodes of verifiers 0.4.0, made of its classes and written by its own writer.

Those of prime-rl are written as its file monitor does: `Episode.to_record()` with orjson, into
rollouts/step_N/train/{all,effective}/traces.jsonl.
"""

import sys
from pathlib import Path

import orjson
import verifiers.v1 as vf
from verifiers.v1.utils.trace_store import write_episode

OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


def episode(step, group, place, reward):
    """An episode with one trace: a question, and an answer with its log-probabilities."""
    data = vf.TaskData(idx=group, prompt=f"What is {group} + {step}?")
    task = vf.TraceTask(type="Sum", data=data)
    asked = vf.MessageNode(
        message=vf.UserMessage(content=data.prompt), token_ids=[1, 2, 3], mask=[False] * 3
    )
    answered = vf.MessageNode(
        parent=0,
        sampled=True,
        message=vf.AssistantMessage(content=f"It is {place}."),
        token_ids=[4, 5, 6, 7],
        mask=[False, True, True, True],
        logprobs=[-0.1, -1.5, -0.02],
        advantages=[reward - 0.5] * 3,
    )
    trace = vf.Trace(
        task=task,
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=[asked, answered],
        rewards={
            "right": vf.Reward(score=reward),
            "form": vf.Reward(score=1.0, weight=0.2),
        },
        metrics={"words": 3.0},
        is_completed=True,
        ok=True,
        stop_condition="agent_completed",
    )
    return vf.Episode(
        env=vf.EnvInfo(id="sums"),
        task=task,
        group=vf.GroupInfo(id=f"group-{step}-{group}"),
        ok=True,
        traces=[trace],
    )


def main(out: Path) -> None:
    """Write both: of prime-rl the first of two groups of each step is effective."""
    (out / "verifiers").mkdir(parents=True)
    for group in range(2):
        for place in range(4):
            write_episode(out / "verifiers", episode(0, group, place, float(place % 2)))

    for step in (1, 2):
        episodes = []
        for group in range(2):
            for place in range(4):
                made = episode(step, group, place, 1.0 if group else float(place % 2))
                made.run = vf.TrainRunInfo(id="run", work=vf.TrainWorkInfo(step=step))
                episodes.append(made)
        for subset, chosen in (("all", episodes), ("effective", episodes[:4])):
            folder = out / "prime_rl" / "rollouts" / f"step_{step}" / "train" / subset
            folder.mkdir(parents=True)
            with (folder / "traces.jsonl").open("ab") as file:
                for one in chosen:
                    file.write(orjson.dumps(one.to_record(), default=str, option=OPTIONS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
