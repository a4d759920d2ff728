"""A rollout for verl's registries: one Ray actor that samples with Hugging Face `generate`."""

import hashlib
import json
import re

import ray
import torch
import verl.workers.rollout.base as base
from verl.experimental.agent_loop import AgentLoopWorker
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

NAME = "hf_cpu"


MOST_TOKENS = 8  # of a sampled answer


def server_name(rank):
    return f"cpu_bed_server_{rank}"


class Server:
    """What verl asks of an inference server.

    An answer depends only on the weights' version, what was read and the number of the rollout, so
    that two runs from the same seed generate the same, in whatever order the requests come. Where
    the prompt says "double", it first calls the tool of that name: once, twice, or for every fourth
    rollout never.
    """

    def __init__(self, path):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.version = 0

    def generate(self, request_id, prompt_ids, sampling_params, **_):
        k = sampling_params["rollout_number"]
        said = self.call(self.tokenizer.decode(prompt_ids), k)
        if said is not None:
            return self.output(self.tokenizer.encode(said))
        asked = (self.version, tuple(prompt_ids), k)
        digest = hashlib.sha256(repr(asked).encode()).digest()
        torch.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        greedy = sampling_params["temperature"] == 0
        sampling = {} if greedy else {"temperature": sampling_params["temperature"], "top_k": 0}
        ids = self.model.generate(
            torch.tensor([prompt_ids]),
            attention_mask=torch.ones(1, len(prompt_ids), dtype=torch.long),
            do_sample=not greedy,
            max_new_tokens=MOST_TOKENS,
            **sampling,
        )
        return self.output(ids[0, len(prompt_ids) :].tolist())

    def output(self, token_ids):
        return TokenOutput(
            token_ids=token_ids,
            stop_reason="completed",
            extra_fields={"global_steps": self.version},
        )

    def call(self, read, k):
        """The tool call that is due after what was read; None: an answer is."""
        calls = re.findall(r'"a":(\d+)', read)
        wanted = 1 + int(calls[0]) % 2 if calls else int(k % 4 > 0)
        if "double" not in read or len(calls) >= wanted:
            return None
        arguments = json.dumps({"a": int(calls[0]) if calls else k}, separators=(",", ":"))
        return f'<tool_call>{{"name":"double","arguments":{arguments}}}</tool_call><|im_end|>'

    def load(self, weights, version):
        self.model.load_state_dict(weights)
        self.version = version

    def sleep(self):
        pass

    def wake_up(self, tags=None):
        pass

    def abort_all_requests(self, reject_request=False):
        pass

    def resume_generation(self):
        pass

    def release_kv_cache(self):
        pass

    def resume_kv_cache(self):
        pass


class Replica(RolloutReplica):
    async def launch_servers(self):
        server = (
            ray.remote(Server)
            .options(name=server_name(self.replica_rank), num_cpus=0)
            .remote(self.model_config.path)
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = server_name(self.replica_rank)


class Adapter(base.BaseRollout):
    """The side of the training worker: hands its weights to the server."""

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, global_steps=0, **_):
        if not hasattr(weights, "__iter__"):
            return  # of a separate server, which has them from the trainer: see cpu_bed.weights
        state = {name: tensor.detach().float().cpu().clone() for name, tensor in weights}
        rank = torch.distributed.get_rank()  # each has a server of its own
        await ray.get_actor(server_name(rank)).load.remote(state, global_steps)


_run_agent_loop = AgentLoopWorker._run_agent_loop


async def _and_number_the_rollout(self, sampling_params, trajectory, **kwargs):
    """verl's requests don't say of which rollout they are, and come in any order: from threads."""
    numbered = {**sampling_params, "rollout_number": 1 + kwargs["session_id"]}
    return await _run_agent_loop(self, numbered, trajectory, **kwargs)


AgentLoopWorker._run_agent_loop = _and_number_the_rollout
base._ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.Adapter"
RolloutReplicaRegistry.register(NAME, lambda: Replica)
