"""A project of Trackio 0.43 with traces, as TRL's asynchronous trainer logs them."""

import os
import sys

os.environ["TRACKIO_DIR"] = sys.argv[1]

import trackio

trackio.init(project="demo", name="run-a")
for step in (0, 1):
    traces = [
        trackio.Trace(
            messages=[
                {"role": "user", "content": f"What is {group}+{step}?"},
                {"role": "assistant", "content": f"It is {place}."},
            ],
            metadata={
                "reward": float(place % 2),
                "rewards/right": float(place % 2),
                "advantage": place % 2 - 0.5,
                "group_id": group,
                "model_version": step,
                "completion_tokens": 4,
            },
        )
        for group in range(2)
        for place in range(4)
    ]
    trackio.log({"rollouts": traces, "loss": 0.1}, step=step)
trackio.finish()
