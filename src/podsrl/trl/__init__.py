"""Host: Hugging Face TRL."""

from typing import TYPE_CHECKING, Any

from podsrl.errors import needed

with needed("trl"):
    from podsrl.trl.versions import check_version

    check_version()

    from podsrl.trl.config import PODSConfig
    from podsrl.trl.trainer import PODSTrainer

if TYPE_CHECKING:
    from podsrl.trl.async_grpo.worker import PODSRolloutWorker

__all__ = ["PODSConfig", "PODSRolloutWorker", "PODSTrainer"]


def __getattr__(name: str) -> Any:
    if name != "PODSRolloutWorker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from podsrl.trl.async_grpo.worker import PODSRolloutWorker  # TRL warns that it is experimental

    return PODSRolloutWorker
