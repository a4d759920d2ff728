"""The command `pods`: its verbs, those of other packages, and what it says of mistakes."""

import os
import subprocess
import sys

import pytest

from podsrl import cli

GREET = '''
"""A verb of another package."""
SUMMARY = "greet whoever is named"
TAKES_FIELDS = {takes_fields}


def configure(parser):
    parser.add_argument("name")
    parser.add_argument("--times", type=int, default=1)


def run(args):
    print("hello", args.name, args.times, args.fields)
    return 3
'''


@pytest.fixture
def alone(monkeypatch):
    """As where nothing but podsrl is installed."""
    monkeypatch.setattr(cli.metadata, "entry_points", lambda **_: ())


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package whose verb is `greet`, as pip leaves it."""

    def installed(takes_fields):
        (tmp_path / "greetings.py").write_text(GREET.format(takes_fields=takes_fields))
        info = tmp_path / "greetings-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[podsrl.verbs]\ngreet = greetings\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "greetings", raising=False)

    return installed


def fails(words, capsys):
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.count("\n") == 1
    return said


def test_the_library_has_select_and_inspect_and_says_where_the_others_are(alone, capsys):
    assert list(cli.find_verbs()) == ["select", "inspect"]
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    assert "\n    train " not in capsys.readouterr().out
    for verb in ("train", "demo", "report"):
        said = fails([verb, "--config", "x.yaml"], capsys)
        where = (
            "belongs to the laboratory. Install it in a checkout of podsrl: pip install -e . -e lab"
        )
        assert said == f"pods: {verb} {where}\n"


def test_a_verb_of_another_package_is_found_and_gives_the_exit_status(install, capsys):
    install(takes_fields=False)
    assert cli.find_verbs()["greet"] == "greetings"
    assert cli.main(["greet", "Ann", "--times", "2"]) == 3
    assert capsys.readouterr().out == "hello Ann 2 []\n"
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    assert "greet whoever is named" in capsys.readouterr().out


def test_a_verb_that_takes_fields_gets_the_options_that_its_parser_does_not_know(install, capsys):
    install(takes_fields=True)
    given = ["--learning_rate", "1e-5", "--betas", "-0.9", "0.99", "--times", "2", "--seed=3"]
    assert cli.main(["greet", "Ann", *given]) == 3
    assert capsys.readouterr().out == (
        "hello Ann 2 ['--learning_rate', '1e-5', '--betas', '-0.9', '0.99', '--seed=3']\n"
    )


def test_any_other_verb_refuses_an_unknown_option_with_the_nearest_one(install, capsys):
    install(takes_fields=False)
    said = fails(["greet", "Ann", "--tims", "2"], capsys)
    assert said == "pods greet: unknown option --tims; did you mean '--times'?\n"
    assert "--keep" in fails(["select", "x.jsonl", "--keeep", "2"], capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "pods: the following arguments are required: VERB (`pods --help` tells more)\n"),
        (
            ["selekt"],
            "pods: unknown verb 'selekt'; did you mean 'select'? (`pods --help` tells more)\n",
        ),
        (["inspect", "nowhere"], "pods inspect: there is no nowhere. If a run will begin there"),
        (["select", "nowhere.jsonl", "--keep", "2"], "pods select: no file nowhere.jsonl\n"),
    ],
)
def test_a_mistake_is_told_in_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fails(words, capsys).startswith(said)


def test_an_extra_that_is_missing_is_named(tmp_path):
    """In a process of its own, without pyarrow."""
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules['pyarrow'] = None; from podsrl.cli import main;"
        " sys.exit(main(['select', 'x.parquet', '--keep', '2']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "needs pyarrow, which is not installed: pip install 'pyarrow>=21'" in done.stderr


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path):
    (tmp_path / "one.jsonl").write_text('{"prompt": "a", "reward": 1}\n')
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "podsrl.cli", "select", "one.jsonl", "--keep", "2"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(writer)
    assert done.returncode == 141
    assert "Error" not in done.stderr


def test_the_help_imports_nothing_that_takes_long():
    """Which is how it is there at once, on a slow machine too."""
    code = (
        "import sys; before = set(sys.modules); from podsrl.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.splitlines()[-1].split()) - sys.stdlib_module_names
    of_others = {name for name in imported if "cython" not in name}  # which numpy brings
    assert of_others - {"podsrl", "podslab"} <= {"numpy", "yaml"}
    assert "podsrl" in of_others
