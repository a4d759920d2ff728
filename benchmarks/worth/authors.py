"""The worth and the cost of a step in the authors' own runs."""

from dataclasses import dataclass, replace
from functools import cache

from benchmarks.folders import RESULTS
from benchmarks.published.kept_curves import read_kept
from podslab.statistics.curves import ArmCurves
from podslab.statistics.worth import StepValue, step_value, worth_by_level

_FILE = RESULTS / "published.json"
_SIZES_N = "GSM8K, rollouts generated n, with m = 16"
_SIZES_M = "GSM8K, rollouts kept m, with n = 64"
_RULES = "GSM8K, rules, n = 64, m = 16"
_MATH = "MATH, Qwen2.5-3B-Instruct, one L40S"
_LLAMA = "GSM8K, Llama-3.2-3B-Instruct, one L40S"
_A100S = "GSM8K, Qwen2.5-7B-Instruct, full parameters, 8 A100s"
_H100S = "GSM8K, Qwen2.5-3B-Instruct, full parameters, 8 H100s"

#: What is counted on one GPU, and what to call it. The exports of eight GPUs have one measure.
RIGHT, FORM, BOTH = "answer_accuracy", "format_accuracy", "both_accuracy"


@dataclass(frozen=True)
class Setting:
    """Two arms of the authors that are compared.

    Args:
        name: What to call the setting.
        n, m: Rollouts generated and kept, for each prompt.
        title: The comparison in results/published.json that has the arm.
        arm: Its name there.
        reference_title, reference: The same of what it is compared with.
        beside: What to call that.
    """

    name: str
    n: int
    m: int
    title: str
    arm: str
    reference_title: str
    reference: str
    beside: str = "GRPO 16 → 16"

    @property
    def on_one_gpu(self) -> bool:
        """Whether it is known which measure is counted."""
        return self.title not in (_A100S, _H100S)


def _beside_grpo(name: str, n: int, m: int, title: str, arm: str) -> Setting:
    return Setting(name, n, m, title, arm, _SIZES_N, "n = 16")


#: GSM8K with Qwen2.5-3B-Instruct on one L40S, by rollouts generated; 16 are kept.
SIZES = tuple(_beside_grpo("GSM8K", n, 16, _SIZES_N, f"n = {n}") for n in (32, 64, 128, 256))
_KEPT = tuple(_beside_grpo("GSM8K", 64, m, _SIZES_M, f"m = {m}") for m in (8, 4, 2))
_RULE = (
    _beside_grpo("GSM8K, random rows", 64, 16, _RULES, "random"),
    _beside_grpo("GSM8K, highest rewards", 64, 16, _RULES, "max_reward"),
)
MATH = Setting("MATH", 32, 8, _MATH, "pods", _MATH, "grpo", "GRPO 8 → 8")
LLAMA = Setting("GSM8K, Llama-3.2-3B", 64, 16, _LLAMA, "pods", _LLAMA, "grpo")
_EIGHT = (
    Setting("GSM8K, 3B, 8 H100s", 128, 32, _H100S, "pods", _H100S, "grpo_ga", "GRPO-GA 32 → 32"),
    Setting("GSM8K, 7B, 8 A100s", 128, 32, _A100S, "pods", _A100S, "grpo_ga", "GRPO-GA 32 → 32"),
)
SETTINGS = (*SIZES, *_KEPT, *_RULE, MATH, LLAMA, *_EIGHT)


@cache
def _kept(measure: str | None) -> dict[str, dict[str, ArmCurves]]:
    return read_kept(_FILE, measure)


def curves(setting: Setting, measure: str | None = RIGHT) -> tuple[ArmCurves, ArmCurves]:
    """The reference and the arm of a setting, by what is counted."""
    kept = _kept(measure if setting.on_one_gpu else None)
    reference = kept[setting.reference_title][setting.reference]
    return replace(reference, arm=setting.beside), kept[setting.title][setting.arm]


@cache
def value(setting: Setting, measure: str | None = RIGHT, until: float = 1.0) -> StepValue:
    """The worth and the cost of a step of the setting."""
    return step_value(*curves(setting, measure), until)


@cache
def by_level(setting: Setting) -> float | None:
    """The worth by the steps to 99 % of the reference's best accuracy; None: not reached."""
    return worth_by_level(*curves(setting)).ratio
