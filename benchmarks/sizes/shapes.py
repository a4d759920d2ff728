"""The shapes that are measured."""

from dataclasses import dataclass

#: Tokens of a prompt; those of GSM8K with the paper's instructions have about as many.
PROMPT_TOKENS = 150


@dataclass(frozen=True)
class Shape:
    """The shape of a decoder of the family Qwen2.

    Args:
        hidden: The width of a layer.
        layers: The number of layers.
        heads, key_value_heads: The heads of attention, and those of its keys and values.
        intermediate: The width of the feed-forward part.
        ties: Whether the output shares its weights with the embedding.
        vocabulary: The number of tokens.
    """

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    intermediate: int
    ties: bool = True
    vocabulary: int = 151_936

    @property
    def weights(self) -> int:
        """The number of weights in the matrices, without biases and norms.

        >>> round(SHAPES["7B"].weights / 1e9, 2)
        7.62
        """
        head_width = self.hidden // self.heads
        attention = 2 * self.hidden * (self.hidden + self.key_value_heads * head_width)
        feed_forward = 3 * self.hidden * self.intermediate
        embeddings = (1 if self.ties else 2) * self.vocabulary * self.hidden
        return embeddings + self.layers * (attention + feed_forward)


#: From config.json of the instruct models on the hub. "tiny" is for trying the script on a CPU.
SHAPES = {
    "0.5B": Shape(896, 24, 14, 2, 4864),
    "1.5B": Shape(1536, 28, 12, 2, 8960),
    "3B": Shape(2048, 36, 16, 2, 11008),
    "7B": Shape(3584, 28, 28, 4, 18944, ties=False, vocabulary=152_064),
    "tiny": Shape(16, 2, 2, 1, 32, vocabulary=512),
}
