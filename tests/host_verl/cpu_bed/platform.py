"""verl's platform interface on a CPU, and the two places where torch insists on a GPU."""

import os
import sys
from contextlib import contextmanager
from types import ModuleType

import torch
import torch.distributed
import torch.distributed.fsdp
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import set_platform


class _NoDevice(ModuleType):
    """Stands for torch.cuda: every other function does nothing and returns 0 (bytes, devices)."""

    def get_device_name(self, *args):
        return "CPU"

    def mem_get_info(self, *args):
        return 0, 1  # free, total

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: 0


class CPUPlatform(PlatformBase):
    device_name = "cpu"
    vendor_name = "none"
    device_module = _NoDevice("cpu_bed.no_device")

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"  # verl writes tensor.to(get_device_id())

    def device_count(self):
        return 1

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "GPU"  # logical ones: ray.init(num_gpus=...)

    def ray_noset_envvars(self):
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        return False

    def get_collective_module(self):
        return None

    def cudart(self):
        return None


class _UnpinnedCPUOffload(torch.distributed.fsdp.CPUOffloadPolicy):
    def __init__(self, pin_memory=True):
        super().__init__(pin_memory=False)


_init_process_group = torch.distributed.init_process_group


def _init_gloo_once(backend=None, *args, **kwargs):
    """verl asks for "cpu:gloo,{device}:{backend}", which names the CPU twice here.

    The ranks meet in a file of the run, and not at verl's MASTER_PORT: verl looks for a free port
    half a minute before the first rank listens at it, and in that time another process may take it.
    """
    if folder := os.environ.get("CPU_BED_MEETING"):
        kwargs["init_method"] = f"file://{folder}/{os.environ['MASTER_PORT']}"
    return _init_process_group(
        "gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs
    )


sys.modules[CPUPlatform.device_module.__name__] = CPUPlatform.device_module
torch.distributed.fsdp.CPUOffloadPolicy = _UnpinnedCPUOffload
torch.distributed.init_process_group = _init_gloo_once
set_platform(CPUPlatform())
