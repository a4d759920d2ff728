"""A checkpoint engine for verl's separate rollout servers: the weights go to the server over Ray.

For actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module; verl's own need GPUs.
"""

import ray
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.workers.rollout.utils import ensure_async_iterator

from cpu_bed.rollout import server_name


@CheckpointEngineRegistry.register("ray_cpu")
class RayEngine(CheckpointEngine):
    """The trainer's side hands the weights over; there is nothing left to receive.

    Server 0 is the one on the trainer's GPU, which generates only until the first step.
    """

    def __init__(self, bucket_size, is_master=False, **_):
        pass

    def prepare(self):
        return {}

    @classmethod
    def build_topology(cls, actor_wg_world_size, rollout_world_size, metadata):
        return {"rank": [0] * actor_wg_world_size}, {"rank": [0] * rollout_world_size}

    def init_process_group(self, rank):
        pass

    def finalize(self):
        pass

    async def send_weights(self, weights, global_steps=None):
        state = {
            name: tensor.detach().float().cpu().clone()
            async for name, tensor in ensure_async_iterator(weights)
        }
        await ray.get_actor(server_name(1)).load.remote(state, global_steps)

    async def receive_weights(self, global_steps=None):
        for nothing in ():
            yield nothing
