"""Modules that need a host which is not installed have no doctests to collect."""

from importlib.util import find_spec

collect_ignore = (
    [] if find_spec("verl") else ["src/podsrl/verl/metrics.py", "src/podsrl/verl/trainer.py"]
)
