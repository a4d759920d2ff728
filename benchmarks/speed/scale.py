"""How much is measured: all of it, or just enough to see that everything works."""

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.small_model import SMALL
from podslab.models.tiny import TinySettings

#: report(done, total, what): how far a part has come.
Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Scale:
    """Sizes and numbers of rounds.

    m, n, prompts: of PODS's training step; the micro-batch is prompts x m rows for all arms.
    groups, group_sizes: P and n of the selection's table.
    growth_groups, growth_sizes: P and n that its exponent is fitted on.
    sweep_n, sweep_m: of the growth of a step, one prompt per step.
    tiny: the model. mixed: that of the second table of generation, for sums of mixed length.
    """

    tiny: TinySettings = field(default_factory=TinySettings)
    mixed: TinySettings = field(
        default_factory=lambda: TinySettings(min_columns=2, max_columns=7, steps=500)
    )
    m: int = 16
    n: int = 64
    prompts: int = 8
    max_completion_length: int = 64
    groups: tuple[int, ...] = (1, 64, 4096)
    group_sizes: tuple[int, ...] = (16, 64, 256, 1024)
    growth_groups: int = 4096
    growth_sizes: tuple[int, ...] = (64, 128, 256, 512, 1024)
    selection_rounds: int = 7
    variants: tuple[str, ...] = ("base", "beta > 0", "num_iterations = 2", "LoRA")
    step_rounds: int = 9
    sweep_n: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    sweep_m: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    growth_rounds: int = 7
    generation_rounds: int = 7

    @classmethod
    def quick(cls) -> "Scale":
        """Under a minute: for a look, and for tests. Its numbers mean little."""
        return cls(
            tiny=SMALL,
            mixed=SMALL,
            m=4,
            n=16,
            prompts=2,
            max_completion_length=32,
            groups=(1, 64),
            group_sizes=(16, 64),
            growth_groups=64,
            growth_sizes=(64, 128, 256),
            selection_rounds=3,
            variants=("base", "num_iterations = 2"),
            step_rounds=2,
            sweep_n=(4, 16),
            sweep_m=(2, 4),
            growth_rounds=2,
            generation_rounds=2,
        )
