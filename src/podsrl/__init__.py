"""PODS: generate n rollouts per prompt, train on the m that teach most (arXiv 2504.13818).

Importing this package imports neither torch nor any trainer.
"""

from podsrl.advantages import group_advantages
from podsrl.errors import PodsError
from podsrl.methods import METHODS
from podsrl.rules import RULES, downsample, downsample_batch, register_rule, rule
from podsrl.selection import Selection

__version__ = "0.2.0"
__all__ = [
    "METHODS",
    "RULES",
    "PodsError",
    "Selection",
    "__version__",
    "downsample",
    "downsample_batch",
    "group_advantages",
    "register_rule",
    "rule",
]
