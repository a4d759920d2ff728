"""Sets of questions for the pretrained model, by a rule that was written before any comparison.

SmolLM2-135M answers in long texts. So it is first shown some questions of each kind with the bare
answer, for a few minutes of supervised training; `answerer` keeps that model. Then its pass rate is
measured on 32 questions of each kind, 8 samples each:

    python -m benchmarks.answers               # results/answers.json: 15 minutes
    python -m benchmarks.answers --left-out    # what no set can have, too: minutes on a GPU

The kinds are the four of the task `numbers` and all datasets of reasoning-gym with questions of at
most 100 tokens and answers of at most 14, where no answer is right more than once in four (there
guessing would pay). A set has the four kinds with the shortest questions whose pass rate is in its
band.
"""

import argparse

import torch

from benchmarks.answers.answerer import get_answerer
from benchmarks.answers.kinds import measure_lengths, measure_pass_rate
from benchmarks.answers.sets import BANDS, FILE, kinds_of, measured_before
from podslab.models.load import load_model
from podsrl.rollout_log.files import write_json

#: Tokens of an answer: of the kinds that a set may have, and of those that none can have.
LIMIT, LIMIT_OF_LEFT_OUT = 16, 64


def main() -> None:
    """Measure, print, and write results/answers.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = "measure the kinds that no set can have, in place of the others"
    parser.add_argument("--left-out", action="store_true", help=what)
    args = parser.parse_args()

    measure(args.left_out)
    for name in BANDS:
        print(name, ", ".join(kinds_of(name)))


def measure(left_out: bool) -> None:
    """Measure every kind that is not measured yet, and write the file after each."""
    on_gpu = left_out and torch.cuda.is_available()
    limit = LIMIT_OF_LEFT_OUT if left_out else LIMIT
    model, tokenizer = load_model(str(get_answerer(on_gpu)))

    kinds = measured_before() or measure_lengths(tokenizer)
    for kind, known in kinds.items():
        is_asked_for = ("left_out" in known) == left_out
        can_be_measured = "question_tokens" in known  # else there are no questions of its kind
        if is_asked_for and can_be_measured and "right" not in known:
            known |= measure_pass_rate(model, tokenizer, kind, limit)
            print(f"{kind}: {known['right']:.1%}", flush=True)
            write_json(FILE, {"kinds": kinds})


if __name__ == "__main__":
    main()
