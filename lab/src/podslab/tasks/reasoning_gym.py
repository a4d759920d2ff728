"""reasoning-gym: about a hundred generators with verifiers (arXiv 2505.24760)."""

import ast
import functools
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from podsgrading.extract import answer_tag, declared_answer, unwrapped
from podsgrading.pool import shared_pool
from podslab.tasks.base import Grade, Row, Task, check_choice, in_format
from podsrl.errors import InvalidInputError, MissingDependencyError, UnknownNameError

_FUNCTION = "podslab.tasks.reasoning_gym:score"
_MAX_VERIFIED = 20_000
#: A verifier's score above this is a right answer; partial credit is less.
_RIGHT = 0.999
#: How far the seeds of the splits are apart; a dataset uses seed + index.
_SEED_OF_SPLIT = {"train": 0, "test": 1 << 28}
#: Datasets whose verifiers run an answer as Python: by `eval`, for one written as a list ...
EVALUATED = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
#: ... and by sympy's `parse_expr`, for a formula.
PARSED = (
    "countdown",
    "intermediate_integration",
    "polynomial_multiplication",
    "puzzle24",
    "simple_integration",
)
#: Datasets whose verifiers accept what is no answer ("nan", any text), and what must hold, too.
CHECKED: dict[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "coin_flip": lambda text, entry: abs(Fraction(text) - Fraction(entry["answer"])) <= 1e-4,
    "complex_arithmetic": lambda text, entry: "nan" not in text.lower(),
    "countdown": lambda text, entry: _arithmetic(text),
    "game_of_life_halting": lambda text, entry: (
        text.strip(" \n.'\"").lower() == str(entry["answer"]).lower()
    ),
    "intermediate_integration": lambda text, entry: (
        "Integral" not in text or "Integral" in entry["answer"]
    ),
    "letter_jumble": lambda text, entry: len(text.split()) == len(entry["answer"].split()),
    "number_sorting": lambda text, entry: "nan" not in text.lower(),
    "puzzle24": lambda text, entry: _makes_24(text, entry["metadata"]["numbers"]),
    "simple_integration": lambda text, entry: "Integral" not in text,
}
#: A formula without attributes, text or names from which anything else could be reached.
_FORMULA = re.compile(
    r"(?:[0-9\s+*/^(),-]|(?<=[0-9])\.|\.(?=[0-9])|(?<![A-Za-z_])(?:a?(?:sin|cos|tan)|exp|log|ln|sqrt"
    r"|Integral|pi|[A-Za-z])(?![A-Za-z0-9_]))*",
    re.ASCII,
)


class ReasoningGym(Task):
    """Generated problems of one of reasoning-gym's datasets, graded by its own verifier.

    A verifier's score of 1 is a right answer; partial credit is not. The two splits have different
    seeds, and a test question that is also a training question is left out.

    Args:
        dataset: its name in reasoning-gym, "chain_sum"; see github.com/open-thought/reasoning-gym.
        size: training problems; there are a fifth as many for testing.
        seed: another seed gives other problems.
        config: options of the dataset as JSON or a mapping, {"max_terms": 4}.
        deadline: seconds for verifying one answer; after that it is unscorable.
    """

    name = "reasoning_gym"
    summary = "reasoning_gym:NAME, a hundred generated tasks (extra podsrl-lab[reasoning_gym])"
    source = "github.com/open-thought/reasoning-gym; each dataset's score_answer is the grader"
    example = {"question": "", "answer": ""}  # noqa: RUF012 (generated; see `examples`)
    example_right = example_wrong = ""

    def __init__(
        self,
        dataset: str = "chain_sum",
        size: int = 1000,
        seed: int = 0,
        config: str | Mapping[str, Any] = "{}",
        deadline: float = 10.0,
    ) -> None:
        if size < 5:
            raise InvalidInputError(f"size must be at least 5; got {size}")
        self._dataset, self._size, self._seed, self._deadline = dataset, size, seed, deadline
        try:
            options = json.loads(config) if isinstance(config, str) else dict(config)
            self._config = json.dumps(options, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"config must be JSON; got {config!r} ({error})") from error
        _make(dataset, self._config, 1, seed)  # its name and options are right, or say so now

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer`, and what the verifier needs to make the problem again."""
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError("reasoning_gym generates its problems; leave --data_path out")
        if split == "train":
            return list(self._train)
        trained = {row["question"] for row in self._train}
        rows = [row for row in self._generate(split) if row["question"] not in trained]
        if not rows:
            raise InvalidInputError(
                f"{self._dataset} has too few different problems for {self._size}: every test"
                " question is a training question too; give a smaller size"
            )
        return rows

    @functools.cached_property
    def _train(self) -> list[Row]:  # some generators take half a minute
        return self._generate("train")

    def examples(self) -> tuple[Row, str, str]:
        """A generated row, its gold completion and an empty answer."""
        row = self.load("train")[0]
        return row, self.gold_completion(row), "<answer></answer>"

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Ask the dataset's verifier."""
        return self.grade_batch([completion], [row])[0]

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        """Ask the dataset's verifier, in the grading processes.

        If it refuses an answer that stands in a box or in bold type, it is asked again without.
        """
        answers = [answer_tag(text) or declared_answer(text) or "" for text in completions]
        scores = self._scores(answers, rows)
        for place, (answer, score) in enumerate(zip(answers, scores, strict=True)):
            plain = unwrapped(answer)
            refused = score is not None and score < _RIGHT
            answers[place] = plain if refused and plain != answer.strip() else ""
        again = self._scores(answers, rows)
        grades = []
        for asked, new, old, text in zip(answers, again, scores, completions, strict=True):
            score = new if asked else old
            grades.append(Grade(None if score is None else score > _RIGHT, in_format(text)))
        return grades

    def _scores(
        self, answers: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[float | None]:
        """The verifier's scores; no answer, and one that is too long, have 0."""
        items = [
            (row["dataset"], row["config"], row["problem"], answer)
            for answer, row in zip(answers, rows, strict=True)
            if 0 < len(answer) <= _MAX_VERIFIED
        ]
        found = iter(shared_pool(self._deadline, "reasoning_gym").run(_FUNCTION, items))
        return [next(found) if 0 < len(answer) <= _MAX_VERIFIED else 0.0 for answer in answers]

    def _generate(self, split: str) -> list[Row]:
        size = self._size if split == "train" else self._size // 5
        seed = self._seed + _SEED_OF_SPLIT[split]
        return [
            {
                "question": str(entry["question"]),
                "answer": "" if entry["answer"] is None else str(entry["answer"]),
                "dataset": self._dataset,
                "config": self._config,
                "problem": _as_text(entry, index, seed),
            }
            for index, entry in enumerate(_make(self._dataset, self._config, size, seed))
        ]


def score(dataset: str, config: str, problem: str, answer: str) -> float:
    """The verifier's score of an answer to a problem that `ReasoningGym.load` made."""
    entry = ast.literal_eval(problem)
    if "index" in entry:
        problems = _make(dataset, config, entry["index"] + 1, entry["seed"])
        if problems[entry["index"]]["question"] != entry["question"]:
            raise InvalidInputError(f"{dataset} makes another problem than when it was loaded")
        entry = problems[entry["index"]]
    if dataset in PARSED and not _FORMULA.fullmatch(answer):
        return 0.0
    if dataset in EVALUATED:  # a module's own name stands before the built-in one
        vars(sys.modules[_classes()[dataset][0].__module__])["eval"] = ast.literal_eval
    try:
        found = float(_make(dataset, config, 1, 0).score_answer(answer, entry))
        return found if dataset not in CHECKED or CHECKED[dataset](answer, entry) else 0.0
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0.0  # it is no answer of the right kind


def _makes_24(text: str, numbers: Sequence[int]) -> bool:
    from sympy.parsing.sympy_parser import parse_expr

    used = sorted(map(int, re.findall("[0-9]+", text)))
    return _arithmetic(text) and used == sorted(numbers) and bool(parse_expr(text.strip()) == 24)


def _arithmetic(text: str) -> bool:
    return re.fullmatch(r"(?:(?!\*\*|//)[0-9\s+*/()-])+", text) is not None


def _as_text(entry: dict[str, Any], index: int, seed: int) -> str:
    """The problem as a Python literal: in JSON its tuples would be lists, and verifiers care.

    One that holds other objects (knights_knaves) is named by its index and seed instead. Not all
    are: some generators depend on the hash seed of the process.
    """
    text = repr(dict(entry))
    try:
        ast.literal_eval(text)
    except ValueError:
        return repr({"index": index, "seed": seed, "question": entry["question"]})
    return text


@functools.lru_cache(maxsize=256)
def _make(dataset: str, config: str, size: int, seed: int) -> Any:
    if dataset not in (names := _classes()):
        raise UnknownNameError(
            f"reasoning-gym has no dataset {dataset!r}; it has {', '.join(sorted(names))}"
        )
    from reasoning_gym.factory import create_dataset

    try:
        return create_dataset(dataset, **{**json.loads(config), "size": size, "seed": seed})
    except (AttributeError, TypeError, ValueError, AssertionError) as error:
        raise InvalidInputError(f"reasoning-gym's {dataset} with {config}: {error}") from error


def _classes() -> dict[str, Any]:
    """Name -> (its class, that of its options)."""
    try:
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise MissingDependencyError(
            "these tasks need a package: in a checkout pip install -e 'lab[reasoning_gym]'"
        ) from error
    return DATASETS
