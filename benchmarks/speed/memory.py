"""The peak memory of a step by its rollouts, its rows and their length, measured and by a formula.

python -m benchmarks.speed.memory --measure results/memory.jsonl    # about 5 minutes on a free core
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
_LENGTHS = (32, 64)  # tokens of a completion
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
        """The peak of the whole step."""
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


def measure_setting(setting: dict[str, Any]) -> dict[str, Any]:
    """Measure a setting, as plain values; for a process of its own."""
    return asdict(measure(**setting))


def measure_missing(file: Path) -> None:
    """Measure the settings that a file lacks, each in a process of its own, and append them."""
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    # A tensor goes back to the system when it is freed, and leaves no gaps that count as used.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)
    import_once(["trl", "peft", "podsrl.trl", "benchmarks.speed.memory"])

    done = read(file) if file.is_file() else []
    known = [{name: getattr(one, name) for name in all_settings()[0]} for one in done]
    for setting in all_settings():
        if setting not in known:
            name = f"{__spec__.name}:measure_setting"
            found = in_own_process(name, setting, seconds=900)
            with file.open("a") as lines:
                lines.write(json.dumps(found) + "\n")


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
    found += [{**kind, "length": _LENGTHS[-1], "lora": True} for kind in kinds]
    found += [
        {"n": n, "m": _KEPT, "length": _LENGTHS[-1], "lora": False, "reward_model": True}
        for n in (min(_ROLLOUTS), max(_ROLLOUTS))
    ]
    return found


# ---- the formula


@dataclass(frozen=True)
class Formula:
    """Peak = fixed + sequences x (each + tokens x token), in bytes.

    The sequences are the n rollouts while generating, and the m rows in the update. So the peak of
    a phase does not depend on the other one's number.
    """

    fixed: float
    each: float
    token: float

    @classmethod
    def of(
        cls, sequences: Sequence[int], tokens: Sequence[int], peaks: Sequence[float]
    ) -> "Formula":
        """Fit the formula by least squares of the relative errors.

        Args:
            sequences, tokens: The number of sequences of each step, and the tokens of one of them.
            peaks: The peaks of these steps, in bytes.
        """
        shapes = np.array(
            [[1, s, s * t] for s, t in zip(sequences, tokens, strict=True)], dtype=float
        )
        known = np.array(peaks)
        found, *_ = np.linalg.lstsq(shapes / known[:, None], np.ones(len(known)), rcond=None)
        return cls(*map(float, found))

    def peak(self, sequences: int, tokens: int) -> float:
        """The bytes at the peak."""
        return self.fixed + sequences * (self.each + tokens * self.token)


def formulas(measured: Sequence[Measured], *, lora: bool) -> tuple[Formula, Formula]:
    """The formulas of generating and of the update, fitted to GRPO's steps: PODS is foreseen.

    The largest of them is left out: it is foreseen as well.
    """
    grpo = [one for one in measured if one.n == one.m < max(_ROLLOUTS) and one.lora == lora]
    grpo = [one for one in grpo if not one.reward_model]
    tokens = [one.tokens for one in grpo]
    sizes = [one.n for one in grpo]
    return (
        Formula.of(sizes, tokens, [one.generating for one in grpo]),
        Formula.of(sizes, tokens, [one.updating for one in grpo]),
    )


def foreseen_peak(measured: Sequence[Measured], step: Measured) -> float:
    """The peak of a step, in bytes, by the formulas that are fitted to GRPO's steps."""
    generating, updating = formulas(measured, lora=step.lora)
    return max(generating.peak(step.n, step.tokens), updating.peak(step.m, step.tokens))


def errors(measured: Sequence[Measured], *, of_pods: bool = True) -> NDArray[np.float64]:
    """The relative errors of the formula at each step's peak: of PODS, or of GRPO itself."""
    found = []
    for one in measured:
        if (one.n != one.m) is not of_pods or one.reward_model:
            continue
        found.append(foreseen_peak(measured, one) / one.peak - 1)
    return np.array(found)


# ---- the page


def page(measured: Sequence[Measured]) -> str:
    """The table of all steps, and how well the formula foresees those of PODS."""
    of_pods = np.abs(errors(measured))
    of_grpo = np.abs(errors(measured, of_pods=False))
    return _PAGE.format(
        worst=f"{100 * of_pods.max():.1f}",
        own=f"{100 * of_grpo.max():.1f}",
        longest=_LENGTHS[-1],
        count=len(of_pods),
        table="\n".join(_table_of_steps(measured)),
        reward_models="\n".join(_table_with_reward_model(measured)),
    )


def _table_of_steps(measured: Sequence[Measured]) -> list[str]:
    """The steps without a reward model; those of PODS beside the formula and GRPO."""
    steps = [one for one in measured if not one.reward_model]
    peak_of_grpo = {(one.n, one.length, one.lora): one.peak for one in steps if one.n == one.m}

    rows = []
    for one in steps:
        share = one.peak / peak_of_grpo[one.n, one.length, one.lora]
        rows.append(
            [
                "LoRA" if one.lora else "full",
                str(one.length),
                f"{one.n} → {one.m}",
                _mib(one.generating),
                _mib(one.updating),
                _mib(one.peak),
                _mib(foreseen_peak(measured, one)) if one.n != one.m else "",
                f"{share:.2f}" if one.n != one.m else "",
            ]
        )
    heads = ["", "tokens", "n → m", "generating", "updating", "the step", "foreseen", "of GRPO's"]
    return table(heads, rows, align_right=True)


def _table_with_reward_model(measured: Sequence[Measured]) -> list[str]:
    rows = []
    for one in measured:
        if one.reward_model:
            rows.append([f"{one.n} → {one.m}", _mib(one.generating), _mib(one.updating)])
    return table(["n → m", "generating and scoring", "updating"], rows, align_right=True)


def _mib(size: float) -> str:
    return f"{size / _MIB:.1f}"


_PAGE = """# The memory of 8 with 32 rollouts

`python -m benchmarks.speed.memory`, on a CPU, float32, a model of 1.4 million random parameters
with a vocabulary of 4,096, one prompt of 32 tokens, completions of exactly so many tokens, TRL's
gradient checkpointing, all rows of the update in one pass. Memory is resident, in MiB, above that
before the first step, so without weights. *Generating* has the scoring in it.

![Peaks of a step by the rollouts of a prompt: GRPO's grow, those of 8 kept ones don't](memory.png)

**The formula**: fixed + sequences x (each + tokens x token). The sequences are the n rollouts
while generating, and the m rows in the update; the step has the larger of the two. The numbers of
each phase are fitted to GRPO's steps of up to 32 rows alone. They foresee the {count} steps of PODS
within {worst} %, and GRPO's own within {own} %. That is by the two with 64 rows of 64 tokens, which
take less than it says, for a reason that was not found; the others are within 0.2 %.

{table}

*The step*: the larger of both. *Of GRPO's*: its peak over that of GRPO with as many rollouts.

**With a reward model** of the policy's size, which scores n rollouts in passes of as many rows as
TRL gives it ({longest} tokens, all weights):

{reward_models}

Of generating, keys and values of n rollouts grow. An engine such as vLLM has them in memory of its
own. In a large model logits and activations weigh less beside the weights than here. On a GPU, at
the paper's sizes, [it was measured, too](sizes.md).
"""


def figure(measured: Sequence[Measured], path: Path) -> None:
    """Peaks of steps by the rollouts of a prompt, full and with LoRA."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    longest = max(one.length for one in measured)
    drawing, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
    for axis, lora in zip(axes, (False, True), strict=True):
        for name, keeps_all, color in (
            ("GRPO, n rows", True, "#4477aa"),
            ("PODS, 8 rows", False, "#cc6677"),
        ):
            of_arm = [
                one
                for one in measured
                if one.lora == lora
                and one.length == longest
                and not one.reward_model
                and (one.n == one.m if keeps_all else one.m == _KEPT)
            ]
            axis.plot(
                [one.n for one in of_arm],
                [one.peak / _MIB for one in of_arm],
                "o-",
                color=color,
                label=name,
            )
        axis.set_title("LoRA" if lora else "all weights")
        axis.set_xlabel("rollouts of a prompt")
        axis.set_xticks(_ROLLOUTS)
        axis.set_ylim(0)
    axes[0].set_ylabel(f"peak of a step, MiB ({longest} tokens)")
    axes[0].legend(frameon=False)
    drawing.tight_layout()
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
        measure_missing(args.measure)
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
