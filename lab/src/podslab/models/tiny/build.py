"""Building the embedded model and warm-starting it on sloppy working."""

import random
from collections.abc import Callable, Iterable, Sequence

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from podslab.models.tiny.settings import TinySettings
from podslab.models.tiny.tokenizer import build_tokenizer
from podslab.tasks.base import TAGS
from podslab.tasks.sums import draw_problem, worked_sum

Progress = Callable[[Iterable[int]], Iterable[int]]
#: Draws an example as pieces of text, each with whether the model learns to write it.
Lesson = Callable[[random.Random], Sequence[tuple[str, bool]]]
#: The label that the cross-entropy of torch and transformers leaves out.
_IGNORED = -100


def build(
    settings: TinySettings,
    progress: Progress = iter,
    device: str | torch.device = "cpu",
    tokenizer: Qwen2Tokenizer | None = None,
    lesson: Lesson | None = None,
) -> tuple[Qwen2ForCausalLM, Qwen2Tokenizer]:
    """A new model, warm-started on a device, and its tokenizer.

    Args:
        settings: Size and warm start; on a CPU the same give the same weights on one machine with
            one number of threads.
        progress: It wraps the range of steps, as `tqdm` does; it may end them early.
        device: Where the warm start runs and the model stays; on a GPU forward and backward are in
            bfloat16, over weights in float32.
        tokenizer: `build_tokenizer()` unless given.
        lesson: What the model learns to write; the sloppy working of sums unless given.
    """
    tokenizer = tokenizer or build_tokenizer()
    lesson = lesson or _sums(tokenizer, settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = Qwen2ForCausalLM(_config(settings, tokenizer))

    model.to(device)  # type: ignore[arg-type] # transformers wraps torch's method without its types
    _warm_start(model, tokenizer, settings, progress, lesson)
    return model.eval(), tokenizer


def sloppy_example(
    draw: random.Random, columns: int, noise: float, form_noise: float = 0.0
) -> tuple[str, str]:
    """A training sum and its working, with slips.

    Each column's digit is wrong with probability `noise`. Each of the four tags is left out with
    probability `form_noise`; one inside the text leaves a line break, so that the answer still
    stands alone.
    """
    a, b = draw_problem(draw, columns, "train")
    slips = [draw.randint(1, 9) if draw.random() < noise else 0 for _ in range(columns)]
    working = worked_sum(a, b, slips)

    if form_noise:  # else no number is drawn: the weights without it stay what they were
        for tag in TAGS:
            if draw.random() < form_noise:
                working = working.replace(tag, "\n")
    return f"{a}+{b}", working.strip("\n")


def _sums(tokenizer: Qwen2Tokenizer, settings: TinySettings) -> Lesson:
    """Sums with a sloppy working; the model learns to write the working alone."""
    # The template is applied once, not for each of many thousand sums.
    conversation = [{"role": "user", "content": "0+0"}]
    text = str(tokenizer.apply_chat_template(conversation, tokenize=False))
    before, after = text.split("0+0")

    def lesson(draw: random.Random) -> list[tuple[str, bool]]:
        columns = draw.randint(settings.min_columns, settings.max_columns)
        question, working = sloppy_example(draw, columns, settings.noise, settings.form_noise)
        prompt = before + question + after
        completion = working + tokenizer.eos_token
        return [(prompt, False), (completion, True)]

    return lesson


def _config(settings: TinySettings, tokenizer: Qwen2Tokenizer) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.key_value_heads,
        max_position_embeddings=4096,
        # For sequences of some dozen tokens the usual 10,000 takes several times as many steps to
        # learn to copy digits.
        initializer_range=settings.initializer_range,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )


def _warm_start(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    settings: TinySettings,
    progress: Progress,
    lesson: Lesson,
) -> None:
    """Train on lessons: the learning rate rises linearly over the warm-up and then falls to 0."""
    draw = random.Random(settings.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0
    )

    def share_of_peak(step: int) -> float:
        rising = (step + 1) / (settings.warmup_steps + 1)
        falling = (settings.steps - step) / max(1, settings.steps - settings.warmup_steps)
        return min(rising, falling)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share_of_peak)
    model.train()
    device = model.device
    mixed = torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type != "cpu")
    for _ in progress(range(settings.steps)):
        input_ids, labels = _batch(tokenizer, draw, settings.batch_size, lesson)
        with mixed:
            loss = model(input_ids=input_ids.to(device), labels=labels.to(device)).loss

        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _batch(
    tokenizer: Qwen2Tokenizer, draw: random.Random, size: int, lesson: Lesson
) -> tuple[torch.Tensor, torch.Tensor]:
    """Input ids and labels, padded; pieces that are not learned have labels that are ignored."""
    examples = [lesson(draw) for _ in range(size)]
    # One call of the tokenizer for all pieces.
    texts = [text for pieces in examples for text, _ in pieces]
    ids_of_pieces = iter(tokenizer(texts)["input_ids"])

    inputs = []
    labels = []
    for pieces in examples:
        input_ids: list[int] = []
        own_labels: list[int] = []
        for _, is_learned in pieces:
            ids = next(ids_of_pieces)
            input_ids += ids
            own_labels += ids if is_learned else [_IGNORED] * len(ids)
        inputs.append(torch.tensor(input_ids))
        labels.append(torch.tensor(own_labels))

    # Padded on the right, where causal attention sees none of it, so that no mask is needed.
    pad = torch.nn.utils.rnn.pad_sequence
    padding = float(tokenizer.pad_token_id or 0)
    return (
        pad(inputs, batch_first=True, padding_value=padding),
        pad(labels, batch_first=True, padding_value=_IGNORED),
    )
