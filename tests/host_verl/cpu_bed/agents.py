"""An agent loop of several turns."""

from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput


class Again(AgentLoopBase):
    """Asks twice; the first answer alone is one row of the rollout, both are another."""

    async def run(self, sampling_params, **kwargs):
        prompt = await self.ct_build_initial_tokens(list(kwargs["raw_prompt"]))
        asked = self.tokenizer.encode("again\n")

        rows = []
        response, mask = [], []  # of all turns so far
        for turn in (0, 1):
            output = await self.server_manager.generate(
                request_id=uuid4().hex,
                prompt_ids=prompt + response,
                sampling_params=sampling_params,
            )

            # New lists each time, since the rows before hold the shorter ones.
            response = response + output.token_ids
            mask = mask + [1] * len(output.token_ids)
            rows.append(
                AgentLoopOutput(
                    prompt_ids=prompt,
                    response_ids=response,
                    response_mask=mask,
                    num_turns=2 * turn + 2,
                    metrics={"num_preempted": -1},
                    extra_fields={**output.extra_fields, "turn_scores": [], "tool_rewards": []},
                )
            )

            # What is asked next is part of the response, and not trained on.
            response = response + asked
            mask = mask + [0] * len(asked)

        return rows
