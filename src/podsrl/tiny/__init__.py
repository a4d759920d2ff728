"""The embedded model: small enough to build, warm-start and train on a CPU in minutes."""

from podsrl.tiny.cache import get_model
from podsrl.tiny.settings import TinySettings

__all__ = ["TinySettings", "get_model"]
