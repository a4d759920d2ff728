"""PODS in axolotl: the plugin and the trainer of sums.yaml, whose section `pods:` is read here.

axolotl gives a trainer that a plugin names neither the model nor the reward functions. So
`trainer_cls` names it, and the plugin makes the section known to axolotl's check of the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer
from axolotl.core.training_args import AxolotlTrainingMixins
from axolotl.integrations.base import BasePlugin, PluginManager
from pydantic import BaseModel, field_validator, model_validator

from podsrl.errors import suggestion
from podsrl.trl import PODSConfig, PODSTrainer


class PODSSection(BaseModel):
    """The section `pods:` of axolotl's file: fields of `PODSConfig`, over those of `trl:`."""

    pods: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_grpo(cls, file: Any) -> Any:
        """Refuse what axolotl would pass over: the advantages are GRPO's."""
        if not isinstance(file, Mapping) or not file.get("pods"):
            return file
        if file.get("rl", "grpo") != "grpo":
            raise ValueError(f"pods needs rl: grpo, got rl: {file['rl']}")
        for section in (file, file.get("trl") or {}, file.get("ebft") or {}):
            for name in ("advantage_estimator", "adv_estimator"):
                if (given := section.get(name, "grpo")) != "grpo":
                    raise ValueError(
                        f"pods has GRPO's advantages, and {name}: {given} would be passed over:"
                        " leave it out. pods.advantage_baseline says what rewards are compared with"
                    )
        return file

    @field_validator("pods")
    @classmethod
    def _has_known_fields(cls, pods: dict[str, Any] | None) -> dict[str, Any] | None:
        known = [field.name for field in fields(PODSConfig) if field.init]
        for name in pods or {}:
            if name not in known:
                others = "its fields are PODSConfig's, such as num_rollouts and advantage_baseline"
                hint = suggestion(name, known, others)
                raise ValueError(f"pods has no field {name!r}; {hint}")
        return pods


class PODSPlugin(BasePlugin):
    """Makes the section `pods:` known."""

    def get_input_args(self) -> str:
        """Where the section's class is."""
        return "pods_axolotl.PODSSection"


@dataclass
class AxolotlPODSConfig(AxolotlTrainingMixins, PODSConfig):
    """`PODSConfig` with the fields that axolotl adds to each trainer's config."""

    context_parallel_size: int | None = None


class AxolotlPODSTrainer(PODSTrainer, AxolotlGRPOTrainer):
    """`PODSTrainer` with axolotl's optimizers and schedulers."""

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: Any = None, **given: Any
    ) -> None:
        known = {field.name for field in fields(AxolotlPODSConfig) if field.init}
        named = [field.name for field in fields(args) if field.init and field.name in known]
        settings = {name: getattr(args, name) for name in named}

        # It follows from the rows of a step, and may be given with these only if it is not set.
        settings["generation_batch_size"] = None
        settings |= PluginManager.get_instance().cfg.pods or {}

        args = AxolotlPODSConfig(**settings)
        super().__init__(model, reward_funcs, args, **given)
