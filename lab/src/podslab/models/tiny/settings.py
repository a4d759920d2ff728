"""What the embedded model is built from."""

from dataclasses import dataclass

from podsrl.errors import InvalidInputError


@dataclass(frozen=True)
class TinySettings:
    """Size of the model and its warm start; the defaults are those of `pods demo`.

    A sampled answer is right about (1 - noise) ** columns of the time: no slip in any column.

    Args:
        min_columns, max_columns: digits of the sums that it is warm-started on.
        noise: probability that a column's result is wrong.
        form_noise: probability that each of the four tags is left out. The share of samples in the
            asked form is then about (1 - form_noise) ** 4.
        steps, batch_size: optimiser steps, and sums in each.
        learning_rate: its peak, after `warmup_steps`; it then falls linearly to 0.
        hidden_size, intermediate_size, layers, heads, key_value_heads: of the Qwen2 architecture.
        initializer_range: standard deviation of the first weights. At this size the usual 0.02
            takes several times as many steps to learn to copy digits; a wider model needs fewer.
        seed: of the weights and of the sums.
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
        if not 1 <= self.min_columns <= self.max_columns:
            raise InvalidInputError(
                f"min_columns = {self.min_columns}, max_columns = {self.max_columns}; allowed is"
                " 1 <= min_columns <= max_columns"
            )
        for name in ("noise", "form_noise"):
            if not 0 <= (share := getattr(self, name)) < 1:
                raise InvalidInputError(f"{name} = {share}; allowed is 0 <= {name} < 1")
        for name in ("steps", "batch_size", "layers"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} = {getattr(self, name)} must be at least 1")
        if self.hidden_size % (2 * self.heads):
            raise InvalidInputError(
                f"hidden_size = {self.hidden_size} must be a multiple of twice heads = {self.heads}"
            )
        if self.heads % self.key_value_heads:
            raise InvalidInputError(
                f"key_value_heads = {self.key_value_heads} must divide heads = {self.heads}"
            )
