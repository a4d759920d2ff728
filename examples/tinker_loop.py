"""PODS on Tinker: a loop like tinker-cookbook's rl_loop.py, with two lines more, marked #."""

import asyncio
import dataclasses
from functools import partial

import datasets
import tinker
from tinker_cookbook import model_info, renderers
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl.data_processing import assemble_training_data
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.tokenizer_utils import get_tokenizer

from podsrl import Selection
from podsrl.tinker import select_trajectories

MODEL = "Qwen/Qwen3-8B"
SELECTION = Selection(num_rollouts=32, num_kept=8)  # 32 are sampled, 8 are trained on  #


class Problem(ProblemEnv):
    """A question that is answered with a number in \\boxed{}."""

    def __init__(self, renderer, question, answer):
        super().__init__(renderer, format_coef=0.0)
        self.question = question
        self.answer = answer.rpartition("#### ")[2].replace(",", "")  # GSM8K writes #### 1,080

    def get_question(self):
        return f"{self.question} Write the number inside \\boxed{{}}."

    def check_answer(self, sample_str):
        return f"\\boxed{{{self.answer}}}" in sample_str.replace(",", "")

    def check_format(self, sample_str):
        return True

    def get_reference_answer(self):
        return self.answer


async def train(service, steps, learning_rate=4e-5, max_tokens=512):
    """A step for each list of group builders; yields what to log of it."""
    client = service.create_lora_training_client(base_model=MODEL, rank=32).result()
    for step, builders_P in enumerate(steps):
        sampler = client.save_weights_and_get_sampling_client().result()
        policy = TinkerTokenCompleter(sampler, max_tokens=max_tokens)
        groups_P = await asyncio.gather(*(do_group_rollout(b, policy) for b in builders_P))
        kept = select_trajectories(groups_P, SELECTION, step=step)  # not compute_advantages  #

        data_D, _ = assemble_training_data(kept.trajectory_groups_P, kept.advantages_P)
        if data_D:  # else no prompt has rewards that differ
            update = client.forward_backward([unmasked(d) for d in data_D], "importance_sampling")
            stepped = client.optim_step(tinker.AdamParams(learning_rate=learning_rate))
            update.result()
            stepped.result()
        yield {**kept.metrics, "rows": len(data_D)}


def unmasked(datum):  # the service does not take the mask that tinker-cookbook adds
    inputs = {name: values for name, values in datum.loss_fn_inputs.items() if name != "mask"}
    return dataclasses.replace(datum, loss_fn_inputs=inputs)


async def main(prompts=32):
    tokenizer = get_tokenizer(MODEL)
    renderer = renderers.get_renderer(model_info.get_recommended_renderer_name(MODEL), tokenizer)
    builders = []
    for row in datasets.load_dataset("openai/gsm8k", "main", split="train"):
        problem = partial(Problem, renderer, row["question"], row["answer"])
        builders.append(ProblemGroupBuilder(problem, SELECTION.num_rollouts))
    steps = [builders[i : i + prompts] for i in range(0, len(builders), prompts)]
    async for metrics in train(tinker.ServiceClient(), steps):  # billed
        print(metrics)


if __name__ == "__main__":
    asyncio.run(main())
