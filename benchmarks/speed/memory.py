"""The peak memory of a step by its rollouts, its rows and their length, measured and by a formula.

python -m benchmarks.speed.memory --measure results/memory.jsonl  # 15 minutes on a free core
python -m benchmarks.speed.memory --page results results/memory.jsonl

Memory is what is resident in a process of its own, above what lay there before the first step, so
without weights. The generating and the updating part of a step are measured apart.
"""

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import table
from benchmarks.own_process import import_once, in_own_process
from benchmarks.speed.resources import peaks_of_training
from podsrl.rollout_log.files import write_whole

_MIB = 2**20
_PROMPT = 32  # tokens
_LENGTHS = (32, 64, 256)  # tokens of a completion
_LENGTHS_OF_LORA = (64, 256)
_LENGTH_OF_SCORED = 64
_ROLLOUTS = (8, 16, 32, 64)
_KEPT = 8

#: Large enough that rows and their length count for more than the weights; random weights, since
#: memory depends on shapes alone. A third of the vocabulary's share in a real model.
_MODEL: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 512,
}


@dataclass(frozen=True)
class Measured:
    """The peaks of one step, in bytes above what lay there before the first one.

    Args:
        n, m: The rollouts that are generated for a prompt, and the rows of the update's one pass.
        length: The tokens of each completion.
        lora: Whether adapters alone are trained.
        reward_model: Whether a model scores, of the policy's size.
        generating: The most until the rows of the update are there: generating and scoring.
        updating: The most from then on.
    """

    n: int
    m: int
    length: int
    lora: bool
    reward_model: bool
    generating: float
    updating: float

    @property
    def tokens(self) -> int:
        """The tokens of a row, prompt and completion."""
        return _PROMPT + self.length

    @property
    def peak(self) -> float:
        """That of the whole step, in bytes."""
        return max(self.generating, self.updating)


# ---- measuring


def measure(n: int, m: int, length: int, *, lora: bool, reward_model: bool) -> Measured:
    """The peaks of the second step of a trainer, since the first one makes the optimiser's state.

    In a process of its own, whose resident memory is its own.
    """
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(folder, n, m, length, lora=lora, reward_model=reward_model)
        generating, updating = peaks_of_training(trainer)[-1]

    return Measured(
        n=n,
        m=m,
        length=length,
        lora=lora,
        reward_model=reward_model,
        generating=float(generating),
        updating=float(updating),
    )


def measured(setting: dict[str, Any]) -> dict[str, Any]:
    """`measure` of a setting, for a process of its own."""
    return asdict(measure(**setting))


def _trainer(folder: str, n: int, m: int, length: int, *, lora: bool, reward_model: bool) -> Any:
    """A trainer of a random model that makes completions of exactly this length."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

    from podsrl.trl import PODSConfig, PODSTrainer

    def lengths_and_letters(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        return [float(sum(ids) % 97) for ids in completion_ids]

    torch.manual_seed(0)
    tokenizer = _tokenizer()
    config = LlamaConfig(**_MODEL, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    scorer: Any = lengths_and_letters
    of_scorer: dict[str, Any] = {"pad_token_id": 0, "num_labels": 1}
    if reward_model:
        scorer = LlamaForSequenceClassification(LlamaConfig(**_MODEL, **of_scorer))
        scorer.config._name_or_path = "reward-model"

    args = PODSConfig(
        output_dir=folder,
        num_rollouts=n,
        num_generations=m,
        per_device_train_batch_size=m,
        gradient_accumulation_steps=1,
        max_completion_length=length,
        generation_kwargs={"min_new_tokens": length},
        max_steps=2,
        learning_rate=1e-6,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        rollout_log=False,
        skip_zero_advantage=False,
    )
    return PODSTrainer(
        model=LlamaForCausalLM(config),
        reward_funcs=scorer,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "w " * (_PROMPT - 1) + "w"}] * 4),
        processing_class=tokenizer,
        reward_processing_classes=tokenizer if reward_model else None,
        peft_config=LoraConfig(r=8, target_modules="all-linear") if lora else None,
    )


def _tokenizer() -> Any:
    """A tokenizer of as many words as the model's vocabulary has."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>", "w"]
    words = special + [f"w{number}" for number in range(_MODEL["vocab_size"] - len(special))]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        padding_side="left",
    )


def all_settings() -> list[dict[str, Any]]:
    """GRPO of n rows and PODS of the same n; with adapters, and with a reward model, once."""
    kinds = [
        {"n": n, "m": m, "reward_model": False}
        for n in _ROLLOUTS
        for m in sorted({n, _KEPT}, reverse=True)
    ]
    found = [{**kind, "length": length, "lora": False} for length in _LENGTHS for kind in kinds]
    found += [
        {**kind, "length": length, "lora": True} for length in _LENGTHS_OF_LORA for kind in kinds
    ]
    found += [
        {"n": n, "m": _KEPT, "length": _LENGTH_OF_SCORED, "lora": False, "reward_model": True}
        for n in (min(_ROLLOUTS), max(_ROLLOUTS))
    ]
    return found


# ---- the formula


#: TRL projects hidden states to logits for as many tokens of a pass at a time (its
#: `TOKEN_CHUNK_SIZE`), so that logits take no more memory from there on.
TOKENS_AT_ONCE = 4096


@dataclass(frozen=True)
class Formula:
    """The peak of a phase by its sequences and their tokens, in bytes.

        generating:  fixed + n x (each + tokens x token)
        update:      fixed + m x tokens x token + logits x min(m x scored tokens, 4,096)

    A phase knows nothing of the other one's number. On a CPU TRL scores all tokens of a row but the
    first.

    Args:
        fixed: Bytes whatever is generated or trained on.
        token: Bytes of each token.
        each: Bytes of each sequence besides.
        logits: Bytes of a token that is scored, for its logits and what is made of them.
    """

    fixed: float
    token: float
    each: float = 0.0
    logits: float = 0.0

    @classmethod
    def of_generating(cls, steps: Sequence[Measured]) -> "Formula":
        """The one that is nearest to the peaks while generating."""
        shapes = [[1, one.n * one.tokens, one.n] for one in steps]
        fixed, token, each = _nearest(shapes, [one.generating for one in steps])
        return cls(fixed, token, each=each)

    @classmethod
    def of_update(cls, steps: Sequence[Measured]) -> "Formula":
        """The one that is nearest to the peaks in the update."""
        shapes = [[1, one.m * one.tokens, _at_once(one.m, one.tokens)] for one in steps]
        fixed, token, logits = _nearest(shapes, [one.updating for one in steps])
        return cls(fixed, token, logits=logits)

    def peak(self, sequences: int, tokens: int) -> float:
        """The bytes at the peak."""
        of_each = self.each + tokens * self.token
        return self.fixed + sequences * of_each + self.logits * _at_once(sequences, tokens)


def _nearest(shapes: Sequence[Sequence[int]], peaks: Sequence[float]) -> list[float]:
    """The least squares of relative errors."""
    known = np.array(peaks)
    relative = np.array(shapes, dtype=float) / known[:, None]
    found, *_ = np.linalg.lstsq(relative, np.ones(len(known)), rcond=None)
    return [float(number) for number in found]


def _at_once(rows: int, tokens: int) -> int:
    """The largest number of tokens whose logits there are at one time."""
    return min(rows * (tokens - 1), TOKENS_AT_ONCE)


def formulas(measured: Sequence[Measured], *, lora: bool) -> tuple[Formula, Formula]:
    """Those of generating and of the update, by GRPO's steps alone: PODS is foreseen.

    Its largest steps are left out: they are foreseen as well.
    """
    grpo = [one for one in measured if is_fitted(one) and one.lora == lora]
    return Formula.of_generating(grpo), Formula.of_update(grpo)


def foreseen(measured: Sequence[Measured], step: Measured) -> float:
    """The bytes at the peak of a step by the formula: the larger one of its phases."""
    generating, updating = formulas(measured, lora=step.lora)
    return max(generating.peak(step.n, step.tokens), updating.peak(step.m, step.tokens))


def errors(measured: Sequence[Measured]) -> NDArray[np.float64]:
    """How far the formula is from the peak of each step without a reward model, as shares."""
    return np.array(
        [foreseen(measured, one) / one.peak - 1 for one in measured if not one.reward_model]
    )


def is_fitted(step: Measured) -> bool:
    """Whether the formula's numbers come from this step and its like."""
    return step.n == step.m < max(_ROLLOUTS) and not step.reward_model


# ---- the page


def page(measured: Sequence[Measured]) -> str:
    """The table of all steps, and how well the formula foresees them."""
    steps = [one for one in measured if not one.reward_model]
    scored = [one for one in measured if one.reward_model]
    of_grpo = {(one.n, one.length, one.lora): one.peak for one in steps if one.n == one.m}

    rows = []
    for one in steps:
        share = one.peak / of_grpo[one.n, one.length, one.lora]
        rows.append(
            [
                "LoRA" if one.lora else "full",
                str(one.length),
                f"{one.n} → {one.m}",
                _mib(one.generating),
                _mib(one.updating),
                _mib(one.peak),
                _mib(foreseen(measured, one)) + (" (fitted)" if is_fitted(one) else ""),
                f"{share:.2f}" if one.n != one.m else "",
            ]
        )
    with_model = [
        [f"{one.n} → {one.m}", _mib(one.generating), _mib(one.updating)] for one in scored
    ]
    numbers = []
    for lora in (False, True):
        for phase, formula in zip(
            ("generating", "updating"), formulas(measured, lora=lora), strict=True
        ):
            numbers.append(
                [
                    "LoRA" if lora else "full",
                    phase,
                    _mib(formula.fixed),
                    _kib(formula.token),
                    _kib(formula.each),
                    _kib(formula.logits),
                ]
            )

    fitted = np.array([is_fitted(one) for one in steps])
    off = 100 * np.abs(errors(measured))
    head = ["", "tokens", "n → m", "generating", "updating", "the step", "formula", "of GRPO's"]
    parts = ["", "phase", "fixed, MiB", "token, KiB", "each, KiB", "logits, KiB"]
    return _PAGE.format(
        worst=f"{off[~fitted].max():.1f}",
        count=int((~fitted).sum()),
        worst_fitted=f"{off[fitted].max():.1f}",
        at_once=f"{TOKENS_AT_ONCE:,}",
        scored_length=_LENGTH_OF_SCORED,
        numbers="\n".join(table(parts, numbers, align_right=True)),
        table="\n".join(table(head, rows, align_right=True)),
        reward_models="\n".join(
            table(["n → m", "generating and scoring", "updating"], with_model, align_right=True)
        ),
    )


def _kib(size: float) -> str:
    return f"{size / 2**10:.1f}" if size else ""


def _mib(size: float) -> str:
    return f"{size / _MIB:.1f}"


_PAGE = """# The memory of 8 with 32 rollouts

`python -m benchmarks.speed.memory`, on a CPU, float32, a model of 1.4 million random parameters
with a vocabulary of 4,096, one prompt of 32 tokens, completions of exactly so many tokens, TRL's
gradient checkpointing, all rows of the update in one pass. Memory is resident, in MiB, above that
before the first step, so without weights. *Generating* has the scoring in it.

![Peaks of a step by the rollouts of a prompt: GRPO's grow, those of 8 kept ones don't](memory.png)

**The formula**: the step has the larger one of two phases.

* generating: fixed + n x (each + tokens x token)
* updating: fixed + m x tokens x token + logits x min(m x scored tokens, {at_once})

TRL 1.16 makes logits for {at_once} tokens of a pass at a time, and drops them. So a pass of more
tokens takes little more memory: only what gradient checkpointing keeps still grows. With this limit
doubled, a step with 64 rows of 64 tokens took 43 % more, as it would without a limit. On a CPU all
tokens of a row but the first are scored, on a GPU those of the completion alone.

{numbers}

The numbers of each phase are fitted to GRPO's steps of up to 32 rows, within {worst_fitted} %. They
foresee the other {count} steps within {worst} %: all of PODS, and those of GRPO with 64 rows.

{table}

*The step*: the larger of both. *Fitted*: its numbers are from this step. *Of GRPO's*: its peak over
that of GRPO with as many rollouts.

**With a reward model** of the policy's size, which scores n rollouts in passes of as many rows as
TRL gives it ({scored_length} tokens, all weights):

{reward_models}

`pods recommend --memory` draws a line through two measured passes. By the formula a pass takes no
more than the line says where it has more rows than both, or fewer; between them the smaller one is
named. So the rows that it names fit, and where the limit lies above both passes, more may.

Of generating, keys and values of n rollouts grow. An engine such as vLLM has them in memory of its
own. In a large model logits and activations weigh less beside the weights than here.

**On a GPU** TRL's kernel works on one copy of the logits, of at most {at_once} tokens and 32,768
words of the vocabulary (256 MiB in bfloat16). On a CPU there are eight to nine copies in float32,
so activations count for more on a GPU. At the paper's sizes, from 8 to 64 rows of 512 tokens, which
all reach the limit, memory [lies on a straight line](sizes.md).
"""


def figure(measured: Sequence[Measured], path: Path) -> None:
    """Peaks of steps by the rollouts of a prompt, full and with LoRA, beside the formula."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
    for axis, lora in zip(axes, (False, True), strict=True):
        generating, updating = formulas(measured, lora=lora)
        for length, marker in zip(_LENGTHS_OF_LORA, ("o", "s"), strict=True):
            of_length = [
                one
                for one in measured
                if (one.lora, one.length, one.reward_model) == (lora, length, False)
            ]
            for name, keeps_all, color in (
                ("GRPO, n rows", True, "#4477aa"),
                (f"PODS, {_KEPT} rows", False, "#cc6677"),
            ):
                of_arm = [
                    one for one in of_length if (one.n == one.m if keeps_all else one.m == _KEPT)
                ]
                axis.plot(
                    [one.n for one in of_arm],
                    [one.peak / _MIB for one in of_arm],
                    marker,
                    color=color,
                    markersize=5,
                    label=f"{name}, {length} tokens",
                )
                sizes = range(min(_ROLLOUTS), max(_ROLLOUTS) + 1)
                axis.plot(
                    sizes,
                    [
                        max(
                            generating.peak(n, _PROMPT + length),
                            updating.peak(n if keeps_all else _KEPT, _PROMPT + length),
                        )
                        / _MIB
                        for n in sizes
                    ],
                    color=color,
                    linewidth=1,
                )
        axis.set_title("LoRA" if lora else "all weights")
        axis.set_xlabel("rollouts of a prompt")
        axis.set_xticks(_ROLLOUTS)
        axis.set_ylim(0)
    axes[0].set_ylabel("peak of a step, MiB (lines: formula)")
    drawing.tight_layout(rect=(0, 0.08, 1, 1))
    handles, names = axes[0].get_legend_handles_labels()
    drawing.legend(handles, names, frameon=False, fontsize=8, loc="lower center", ncols=4)
    drawing.savefig(path, dpi=150)


def read(path: Path) -> list[Measured]:
    """The lines of a file of measurements."""
    return [Measured(**json.loads(line)) for line in path.read_text().splitlines()]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure into a file, or write the page of one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.memory", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="measurements to write a page of")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure what it lacks")
    parser.add_argument("--page", type=Path, metavar="FOLDER", help="of memory.md and memory.png")
    args = parser.parse_args(argv)

    if args.measure is not None:
        warnings.simplefilter("ignore")
        os.environ["HF_HUB_OFFLINE"] = "1"
        # A tensor goes back to the system when it is freed, and leaves no gaps that count as used.
        os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)
        import_once(["trl", "peft", "podsrl.trl", "benchmarks.speed.memory"])
        done = read(args.measure) if args.measure.is_file() else []
        known = [{name: getattr(one, name) for name in all_settings()[0]} for one in done]
        for setting in all_settings():
            if setting not in known:
                found = in_own_process(f"{__spec__.name}:measured", setting, seconds=900)
                with args.measure.open("a") as file:
                    file.write(json.dumps(found) + "\n")
    if args.file is not None:
        measured = read(args.file)
        text = page(measured)
        print(text)
        if args.page is not None:
            write_whole(args.page / "memory.md", text.encode())
            figure(measured, args.page / "memory.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
