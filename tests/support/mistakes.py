"""Mistakes at the command line, made from the lists of options and fields, and tried one by one.

Run as `python -m support.mistakes FOLDER`, in a process that must never import torch: prints the
number of mistakes tried, and each that was not refused as it should be.
"""

import argparse
import builtins
import contextlib
import importlib
import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from podsrl.cli import VERBS
from podsrl.cli import main
from podslab.training.fields import BOUNDS, Bounds, Field, known_fields
from support.synthetic_rollouts import rollouts
from support.synthetic_runs import write_run
from support.tiny_run import TINY_RUN

_NUMBERS = ("-7", "-0.5", "0", "nan", "inf", "many", "")
#: A verb, and a command line of it.
Mistake = tuple[str, list[str]]
_SLOW = ("torch", "trl", "transformers", "accelerate", "datasets")


class Bed:
    """A folder with a valid file of each kind, and a valid command for each verb."""

    def __init__(self, folder: Path) -> None:
        self.configs, folder = folder / "configs", folder / "bed"
        self.configs.mkdir()
        folder.mkdir()
        self.folder, self.out = folder, folder / "new" / "out"
        self.file = folder / "a-file"
        self.file.write_text("mine")
        self.settings = {**TINY_RUN, "model_name_or_path": "tiny", "output_dir": str(self.out)}
        own = {k: v for k, v in self.settings.items() if k not in ("output_dir", "max_steps")}
        self.comparison: dict[str, Any] = {
            "settings": {**own, "lr_scheduler_type": "constant"},
            "arms": {"grpo": {}, "pods": {}},
            "seeds": 1,
            "budget": {"steps": 2},
            "output_dir": str(self.out),
        }
        run = write_run(folder / "a-run", "pods", 0, (0.1, 0.5))
        run.write_rollouts(1, rollouts())
        (folder / "rollouts.jsonl").write_text('{"prompt": "a", "reward": 1}\n' * 4)
        self.commands = {
            "train": ["train", "--config", self.yaml(self.settings)],
            "demo": ["demo", "--output_dir", str(self.out)],
            "compare": ["compare", "--config", self.yaml(self.comparison)],
            "evaluate": ["evaluate", "tiny", "--task", "arithmetic"],
            "report": ["report", str(run.path), "--out", str(self.out)],
            "tasks": ["tasks", "check", "arithmetic"],
            "select": ["select", str(folder / "rollouts.jsonl"), "--keep", "1"],
            "recommend": [
                *("recommend", "--costs", "generate=1,update=1", "--pass_rates", "0.5"),
                *("--out", str(self.out)),
            ],
        }

    def yaml(self, value: Any, text: str = "") -> str:
        """The path of a file with this value, or this text."""
        text = text or yaml.safe_dump(value, sort_keys=False)
        path = self.configs / f"{hash(text) & 0xFFFFFFFFFFFF:x}.yaml"
        path.write_text(text)
        return str(path)

    def changed(self, *wrong: str, verb: str = "train") -> Mistake:
        """A valid command with something wrong at its end."""
        return verb, [*self.commands[verb], *wrong]


def misspelt(name: str) -> str:
    """The name with its last letter twice: no field, option or word is called that."""
    return name + name[-1]


def wrong_values(field: Field) -> Iterator[str]:
    """Texts that a field must not take."""
    kinds = set(field.kinds) - {"None"}
    bounds = BOUNDS.get(field.name, Bounds())
    if kinds <= {"int", "float"} or field.name == "num_rollouts":
        whole = not kinds <= {"float"}
        for text in (*_NUMBERS, f"{bounds.most + 1}" if bounds.most < 1e9 else "-inf"):
            try:
                value = float(text)
            except ValueError:
                yield text
                continue
            if value not in bounds or (whole and not value.is_integer()):
                yield text
    elif kinds == {"bool"}:
        yield from ("maybe", "2")
    if field.choices and "bool" not in kinds:
        yield misspelt(field.choices[0])


def of_fields(bed: Bed) -> Iterator[Mistake]:
    """Every field with a wrong name and with every wrong value, as a flag and as a key."""
    for i, field in enumerate(known_fields().values()):
        yield bed.changed(f"--{misspelt(field.name)}", "1")
        for key in (misspelt(field.name), f"no_{field.name}"):
            yield "train", ["train", "--config", bed.yaml({**bed.settings, key: 1})]
        for text in wrong_values(field):
            yield bed.changed(f"--{field.name}={text}")
            yield bed.changed(f"--{field.name}", text or "many")
            value: Any = yaml.safe_load(text) if text and text[0] not in "{[" else text
            as_key = bed.yaml({**bed.settings, field.name: text if value is None else value})
            yield "train", ["train", "--config", as_key]
            if i % 5 == 0:
                yield bed.changed("--config", as_key, verb="recommend")
                arms = {"grpo": {}, "pods": {field.name: text}}
                for change in ({"settings": {field.name: text}}, {"arms": arms}):
                    path = bed.yaml({**bed.comparison, **change})
                    yield "compare", ["compare", "--config", path]


def of_options(bed: Bed) -> Iterator[Mistake]:
    """Every option of every verb with a wrong name and with every wrong value."""
    for verb in VERBS:
        yield "", [misspelt(verb)]
        parser = argparse.ArgumentParser()
        importlib.import_module(f"podsrl.cli.{verb}").configure(parser)
        for action in _actions(parser):
            if not action.option_strings:
                continue
            option = action.option_strings[-1]
            yield bed.changed(misspelt(option), "1", verb=verb)
            if action.choices is not None:
                word = misspelt(str(next(iter(action.choices))))
                yield bed.changed(option, word, verb=verb)
            if action.type is not None:
                for text in filter(lambda text: _refuses(action.type, text), _NUMBERS):
                    yield bed.changed(f"{option}={text}", verb=verb)
    yield "tasks", ["tasks", "chekc"]


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from itertools.chain(*map(_actions, action.choices.values()))
        elif not isinstance(action, argparse._HelpAction):
            yield action


def _refuses(kind: Any, text: str) -> bool:
    try:
        kind(text)
    except (ValueError, argparse.ArgumentTypeError):
        return True
    return False


def of_paths(bed: Bed) -> Iterator[Mistake]:
    """Every path missing, a file where a folder is needed, a folder for a file, unwritable."""
    missing, file, folder = str(bed.folder / "none"), str(bed.file), str(bed.folder)
    unwritable = (file, f"{file}/below", "/proc/nowhere")
    for option in ("data_path", "evaluation_path"):
        yield bed.changed(f"--{option}", missing)
    for model in (missing, file, folder, "./none"):
        yield bed.changed("--model_name_or_path", model)
        yield "evaluate", ["evaluate", model, "--task", "arithmetic"]
    yield bed.changed("--data_path", missing, verb="evaluate")
    yield bed.changed("--data_path", missing, verb="tasks")
    for verb in ("train", "compare", "recommend"):
        for path in (missing, folder, f"{file}/below"):
            yield verb, [verb, "--config", path]
    for verb, option in (
        *(("train", "--output_dir"), ("demo", "--output_dir"), ("compare", "--output_dir")),
        *(("report", "--out"), ("recommend", "--out")),
    ):
        for path in unwritable:
            yield bed.changed(option, path, verb=verb)
    for path in unwritable:
        yield bed.changed("--output", path, verb="select")
    for path in (missing, folder, file):
        yield "select", ["select", path, "--keep", "1"]
    yield "report", ["report", missing]
    yield "recommend", ["recommend", missing]
    yield bed.changed("--output_dir", str(bed.folder / "a-run"))


def of_words(bed: Bed) -> Iterator[Mistake]:
    """Unknown rules, tasks, splits, arms, reports, counts, and YAML that says two things."""
    broken, unasked = bed.folder / "broken.py", bed.folder / "unasked.py"
    broken.write_text("def task(:\n")
    unasked.write_text("x = 1\ndef rule(rewards):\n    return rewards\n")
    for words in (
        ["--downsampling_rule", "max_varience"],
        ["--downsampling_rule", f"{broken}:rule"],
        ["--downsampling_rule", f"{unasked}:rule"],
        ["--task", "arithmetik"],
        ["--task", str(broken)],
        ["--task", str(unasked)],
        ["--task", str(bed.folder / "none.py")],
        ["--task_options", "{no_such: 1}"],
        ["--task_options", "[1]"],
        ["--train_split", "trian"],
        ["--evaluation_split", "dev"],
        ["--reward_weights", "1", "2"],
        ["--reward_weights", "1", "x", "3"],
        ["--report_to", "clearml"],
        ["--resume", "--overwrite"],
        ["stray"],
    ):
        yield bed.changed(*words)
    text = yaml.safe_dump(bed.settings)
    yield "train", ["train", "--config", bed.yaml(None, f"{text}max_steps: 4\n")]
    yield "train", ["train", "--config", bed.yaml(None, "a: [1\nb")]
    yield "train", ["train", "--config", bed.yaml(["list"])]
    yield "train", ["train", "--config", "arithmetc"]
    for change in (
        {"arms": {"x": {"like": "grop"}}},
        {"arms": {}},
        {"seeds": 0},
        {"budget": {"hours": 1}},
        {"evaluations": -1},
        {"sedes": 1},
    ):
        path = bed.yaml({**bed.comparison, **change})
        yield "compare", ["compare", "--config", path]
    yield bed.changed("--shard", "3/2", verb="compare")
    yield "evaluate", ["evaluate", "tiny", "--task", "arithmetc"]
    yield bed.changed("--split", "dev", verb="evaluate")
    yield bed.changed("--split", "dev", verb="tasks")
    yield bed.changed("--rule", "max_varience", verb="select")
    yield bed.changed("--reference", "grop", verb="report")
    yield bed.changed("--task", "math", verb="report")
    yield bed.changed("--clock", "generate=x", verb="report")
    for costs in ("generate=1", "update=1", "generate=-1,update=1", "x"):
        words = ["--costs", costs, "--pass_rates", "0.5", "--out", str(bed.out)]
        yield "recommend", ["recommend", *words]
    yield "recommend", ["recommend"]


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """What lies in a folder, without the byte code that Python keeps of an imported file."""
    files = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {str(path): (path.lstat().st_size, path.lstat().st_mode) for path in files}


def problem(bed: Bed, verb: str, words: list[str]) -> str:
    """What is not as it should be when a mistake is made; "" if nothing."""
    before, out, err = contents(bed.folder), io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: Any = main(words)
    except BaseException as error:  # noqa: BLE001 (that is what is looked for)
        return f"{type(error).__name__}: {error}"
    said = err.getvalue()
    start = f"pods {verb}: " if verb else "pods: "
    if code != 2:
        return f"exit code {code}: {out.getvalue()[-200:]} {said}"
    if said.count("\n") != 1 or not said.startswith(start) or len(said) > 600:
        return f"not one line: {said}"
    return "" if contents(bed.folder) == before else f"the disk changed: {said}"


def try_all(folder: Path) -> None:
    """Try every mistake and print what came of it, as JSON."""
    really = builtins.__import__

    def guarded(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in _SLOW:
            raise AssertionError(f"{name} is imported before the mistake is found")
        return really(name, *args, **kwargs)

    builtins.__import__ = guarded
    bed = Bed(folder)
    kinds = (of_options, of_paths, of_words, of_fields)
    tried = [mistake for kind in kinds for mistake in kind(bed)]
    found = {" ".join(words): problem(bed, verb, words) for verb, words in tried}
    print(json.dumps({"tried": len(found), "wrong": {k: v for k, v in found.items() if v}}))


if __name__ == "__main__":
    try_all(Path(sys.argv[1]))
