"""The settings that the embedded model is built from."""

import re
from dataclasses import dataclass

from podsrl.errors import InvalidInputError


@dataclass(frozen=True)
class TinySettings:
    """Size of the model and its warm start; the defaults are those of the config `arithmetic`.

    A sampled answer is right about (1 - noise) ** columns of the time: no slip in any column.

    Args:
        min_columns, max_columns: The digits of the sums that it is warm-started on.
        noise: The probability that a column's result is wrong.
        form_noise: The probability that each of the four tags is left out. The share of samples in
            the asked form is then about (1 - form_noise) ** 4.
        steps, batch_size: The optimiser steps, and the sums in each.
        learning_rate: Its peak, after `warmup_steps`; it then falls linearly to 0.
        hidden_size, intermediate_size, layers, heads, key_value_heads: Of the Qwen2 architecture.
        initializer_range: The standard deviation of the first weights. At this size the usual 0.02
            takes several times as many steps to learn to copy digits; a wider model needs fewer.
        seed: Of the weights and of the sums.
    """

    min_columns: int = 4
    max_columns: int = 4
    noise: float = 0.3
    form_noise: float = 0.0
    steps: int = 300
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 20
    hidden_size: int = 128
    intermediate_size: int = 384
    layers: int = 4
    heads: int = 4
    key_value_heads: int = 2
    initializer_range: float = 0.06
    seed: int = 0

    def __post_init__(self) -> None:
        rules = {
            "1 <= min_columns <= max_columns": 1 <= self.min_columns <= self.max_columns,
            "0 <= noise < 1": 0 <= self.noise < 1,
            "0 <= form_noise < 1": 0 <= self.form_noise < 1,
            "steps >= 1": self.steps >= 1,
            "batch_size >= 1": self.batch_size >= 1,
            "layers >= 1": self.layers >= 1,
            "hidden_size % (2 * heads) == 0": self.hidden_size % (2 * self.heads) == 0,
            "heads % key_value_heads == 0": self.heads % self.key_value_heads == 0,
        }
        for rule, holds in rules.items():
            if not holds:
                names = [word for word in re.findall(r"[a-z_]+", rule) if hasattr(self, word)]
                given = ", ".join(f"{name} = {getattr(self, name)}" for name in names)
                raise InvalidInputError(f"{given}; allowed is {rule}")


#: A tenth of the usual size, for sums of two columns: built in about 5 s, for tests and trials.
SMALL = TinySettings(
    min_columns=2,
    max_columns=2,
    noise=0.15,
    steps=300,
    batch_size=16,
    learning_rate=4e-3,
    hidden_size=64,
    intermediate_size=128,
    layers=2,
    heads=2,
    key_value_heads=2,
)
