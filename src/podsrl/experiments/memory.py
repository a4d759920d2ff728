"""What an update needs of a GPU's memory: an estimate from sizes, before anything runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podsrl.experiments.spec import Spec

GIB = 2**30
#: Tokens of a prompt that are assumed; the paper's settings allow as many.
PROMPT_TOKENS = 512


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder with gated MLPs and grouped-query attention (Llama, Qwen, ...)."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    head_size: int
    vocabulary: int
    tied: bool

    @classmethod
    def of_config(cls, config: Any) -> "ModelShape":
        """From a `PretrainedConfig` of transformers.

        Raises:
            AttributeError: another kind of model.
        """
        heads = config.num_attention_heads
        return cls(
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=heads,
            key_value_heads=config.num_key_value_heads,
            head_size=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocabulary=config.vocab_size,
            tied=config.tie_word_embeddings,
        )

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of the linear maps of one layer."""
        query, key = self.heads * self.head_size, self.key_value_heads * self.head_size
        return {
            "q_proj": (self.hidden, query),
            "k_proj": (self.hidden, key),
            "v_proj": (self.hidden, key),
            "o_proj": (query, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """Weights of the model without biases and norms, which are less than one in a thousand."""
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return self.layers * sum(i * o for i, o in self.linears.values()) + embeddings

    def lora_parameters(self, rank: int, targets: tuple[str, ...]) -> int:
        """Weights of LoRA adapters of that rank on the named linear maps of every layer."""
        return self.layers * rank * sum(sum(self.linears.get(name, ())) for name in targets)

    def activations(self, checkpointing: bool) -> int:
        """Numbers that one token leaves for the backward pass, without its logits.

        Of each layer: inputs of the norms, of the maps and of attention (which is fused), and the
        gated MLP's. With gradient checkpointing one number per layer and hidden unit, and one layer
        in full, which is being recomputed.
        """
        attention = (2 * self.heads + 2 * self.key_value_heads) * self.head_size
        layer = 8 * self.hidden + 2 * attention + 4 * self.intermediate
        return self.layers * self.hidden + layer if checkpointing else self.layers * layer


#: Models of the paper, whose files need not be there for a preview.
SHAPES = {
    "Qwen/Qwen2.5-3B-Instruct": ModelShape(2048, 11008, 36, 16, 2, 128, 151936, True),
    "Qwen/Qwen2.5-7B-Instruct": ModelShape(3584, 18944, 28, 28, 4, 128, 152064, False),
    "meta-llama/Llama-3.2-3B-Instruct": ModelShape(3072, 8192, 28, 24, 8, 128, 128256, True),
}


@dataclass(frozen=True)
class UpdateMemory:
    """Bytes on each device at the peak of an update; what generation needs is not in it.

    weights: of the model, and of the reference model where there is one.
    training: gradients and the optimiser's state. activations: of one micro-batch, with logits.
    """

    weights: float
    training: float
    activations: float
    rows: int
    tokens: int

    @property
    def total(self) -> float:
        """Bytes of all parts."""
        return self.weights + self.training + self.activations

    @classmethod
    def of(cls, spec: "Spec", shape: ModelShape, processes: int) -> "UpdateMemory":
        """Estimate it.

        Args:
            spec: the run's settings.
            shape: the model's.
            processes: GPUs. Full-parameter training on several shards gradients and the optimiser
                (ZeRO-2), as the launch command of `Preview` does.
        """
        args, model = spec.training, spec.model
        width = 2 if args.bf16 or args.fp16 else 4  # bytes of an activation
        rows = args.per_device_train_batch_size
        completion = args.max_completion_length or 256
        tokens = PROMPT_TOKENS + completion
        # logits, divided by the temperature, their log-softmax, and the gradient
        logits = 4 * completion * shape.vocabulary
        kept = tokens * shape.activations(args.gradient_checkpointing)
        stored = 2 if model.dtype in ("bfloat16", "float16") else 4
        state = 2 if "8bit" in str(args.optim) else 8
        if model.use_peft:
            targets: Any = model.lora_target_modules or ("q_proj", "v_proj")  # TRL unpacks one
            targets = (targets,) if isinstance(targets, str) else tuple(targets)
            trained = shape.lora_parameters(model.lora_r, targets)
            # 4-bit weights come with scales; adapters are kept in float32
            weights = shape.parameters * (0.56 if model.load_in_4bit else stored) + 4.0 * trained
            training = trained * (4.0 + state)
        else:
            copies = 2 if args.beta else 1
            weights = float(shape.parameters * stored * copies)
            training = shape.parameters * (stored + state + (4 if stored == 2 else 0)) / processes
        return cls(weights, training, float(width * rows * (kept + logits)), rows, tokens)

    def __str__(self) -> str:
        return (
            f"about {self.total / GIB:.1f} GiB on each device for the update:"
            f" {self.weights / GIB:.1f} weights, {self.training / GIB:.1f} gradients and optimiser,"
            f" {self.activations / GIB:.1f} activations of {self.rows} rows x {self.tokens} tokens"
        )


def find_shape(spec: "Spec") -> ModelShape | None:
    """The shape of the run's model, if its config is on this machine or the model is known."""
    from transformers import AutoConfig

    from podsrl.tiny.tokenizer import build_tokenizer

    name = str(spec.model.model_name_or_path)
    if name in SHAPES:
        return SHAPES[name]
    if name == "tiny":
        tiny = spec.tiny_settings
        return ModelShape(
            hidden=tiny.hidden_size,
            intermediate=tiny.intermediate_size,
            layers=tiny.layers,
            heads=tiny.heads,
            key_value_heads=tiny.key_value_heads,
            head_size=tiny.hidden_size // tiny.heads,
            vocabulary=len(build_tokenizer()),
            tied=True,
        )
    try:
        return ModelShape.of_config(AutoConfig.from_pretrained(name, local_files_only=True))
    except (OSError, ValueError, AttributeError):  # not here, or another kind of model
        return None
