"""The embedded model: small enough to build, warm-start and train on a CPU in minutes."""

from podslab.models.tiny.cache import get_model
from podslab.models.tiny.settings import TinySettings

__all__ = ["TinySettings", "get_model"]
