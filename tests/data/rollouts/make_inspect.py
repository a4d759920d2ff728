"""Logs of inspect_ai 0.3.285 with its own mock model, as .eval and as .json."""

import sys

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

task = Task(
    dataset=[
        Sample(input="What is 1+1? Number only.", target="2", id="a"),
        Sample(input="What is 2+3? Number only.", target="5", id="b"),
    ],
    solver=generate(),
    scorer=match(location="exact"),
    epochs=4,
)
for log_format in ("eval", "json"):
    outputs = []
    for answer in ["2", "3", "2", "11", "5", "6", "5", "5"]:
        output = ModelOutput.from_content("mockllm/model", answer)
        output.usage = ModelUsage(input_tokens=9, output_tokens=2, total_tokens=11)
        outputs.append(output)
    evaluate(
        task,
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=sys.argv[1],
        log_format=log_format,
        display="none",
        max_samples=1,
    )
