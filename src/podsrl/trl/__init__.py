"""Host: Hugging Face TRL."""

from podsrl.trl.config import PODSConfig
from podsrl.trl.trainer import PODSTrainer

__all__ = ["PODSConfig", "PODSTrainer"]
