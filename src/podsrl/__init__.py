"""PODS: generate n rollouts per prompt, train on the m whose rewards vary most (arXiv 2504.13818).

Importing this package imports neither torch nor any trainer.
"""

from podsrl.advantages import group_advantages
from podsrl.downsampling import RULES, downsample, downsample_batch, register_rule
from podsrl.errors import PodsError

__version__ = "0.2.0"
__all__ = [
    "RULES",
    "PodsError",
    "__version__",
    "downsample",
    "downsample_batch",
    "group_advantages",
    "register_rule",
]
