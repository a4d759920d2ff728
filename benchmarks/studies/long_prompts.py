"""Questions with long prompts and short answers: worked examples, and a question of their kind.

A prompt shows worked examples, a line each, and ends with a question: `472&316=`. The sign asks for
the last digit of each column's sum, `788`. The answer has six tokens, so generating is cheap where
the prompt is read once for all its rollouts; an update passes over the prompt in each row.
"""

import random

from podslab.tasks.base import Row
from podslab.tasks.made_up import MadeUp, split_of
from podslab.tasks.sums import Writer, rightly

_DIGITS = 3
#: Two numbers, as texts of equally many digits.
Pair = tuple[str, str]


def answer_to(pair: Pair, write: Writer = rightly) -> str:
    """The last digits of the columns' sums, as a writer writes them; a fact is two digits."""
    columns = zip(*pair, strict=True)
    return "".join(str(write((x, y), (int(x) + int(y)) % 10)) for x, y in columns)


def _text(pair: Pair) -> str:
    return f"{pair[0]}&{pair[1]}="


def _split(pair: Pair) -> str:
    """The split that a question belongs to, whatever the order of its numbers."""
    return split_of(" ".join(sorted(pair)))


def draw_pair(draw: random.Random, split: str) -> Pair:
    """Two numbers of a split's questions."""
    while True:
        first, second = (f"{draw.randrange(10**_DIGITS):0{_DIGITS}}" for _ in range(2))
        if _split((first, second)) == split:
            return first, second


def draw_prompt(pair: Pair, examples: int, draw: random.Random) -> str:
    """Worked examples of the training split, and the question."""
    shown = [draw_pair(draw, "train") for _ in range(examples)]
    lines = [_text(other) + answer_to(other) for other in shown]
    return "\n".join([*lines, _text(pair)])


class LongPrompts(MadeUp):
    """Questions behind worked examples, the same for every seed of a run.

    Args:
        examples: The worked examples of a prompt; each has twelve tokens.
        train_size, tuning_size, test_size: The questions of each split.
    """

    name = "long-prompts"
    summary = "the questions of results/long-prompts"
    source = "made up here, from a fixed seed"
    example = {"question": "123&111=234\n472&316=", "answer": "788"}  # noqa: RUF012
    example_right = "<answer>788</answer>"
    example_wrong = "788"

    def __init__(
        self,
        examples: int = 16,
        train_size: int = 4096,
        tuning_size: int = 200,
        test_size: int = 200,
    ) -> None:
        self.shown = examples
        super().__init__(train_size, tuning_size, test_size)

    def rows_of(self, split: str) -> list[Row]:
        """Rows with `question` and `answer`."""
        draw = random.Random(f"long prompts {split}")
        pairs = [draw_pair(draw, split) for _ in range(self.sizes[split])]
        return [
            {"question": draw_prompt(pair, self.shown, draw), "answer": answer_to(pair)}
            for pair in pairs
        ]
