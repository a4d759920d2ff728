"""Entry point of the group `verl.plugins`: registers our trainer modes once verl loads its own.

Every process that imports verl loads this, Ray workers included. Importing verl's trainers here
would settle the hardware platform, take seconds and need TransferQueue; so we wait for them.
"""

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Sequence
from types import ModuleType

logger = logging.getLogger(__name__)

_TRAINERS_OF_VERL = "verl.trainer.ppo.v1"


def register_trainers() -> None:
    """Register our trainer modes; a failure is logged, as verl hides what a plugin raises."""
    try:
        importlib.import_module("podsrl.verl.trainer")
    except Exception:
        logger.exception(
            "podsrl could not register the trainer modes pods_sync, pods_colocate_async and"
            " pods_separate_async; podsrl is made for verl 0.9.x (pip install 'podsrl[verl]')"
        )


class _AfterVerlsTrainers(importlib.abc.MetaPathFinder):
    """Finds verl's package of trainers as usual, and runs `register_trainers` after it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _TRAINERS_OF_VERL:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run_module = spec.loader.exec_module

        def run_then_register(module: ModuleType) -> None:
            run_module(module)
            register_trainers()

        spec.loader.exec_module = run_then_register  # type: ignore[method-assign]
        return spec


if _TRAINERS_OF_VERL in sys.modules:
    register_trainers()
else:
    sys.meta_path.insert(0, _AfterVerlsTrainers())
