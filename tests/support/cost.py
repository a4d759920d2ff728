"""A pytest plugin: which tests and files use the most processor time, their processes included."""

from collections import Counter
from collections.abc import Iterator
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time  # by its name here: tests replace that of the module
from typing import Any

import pytest

SHOWN = 10
COLLECTING = "(collecting, once per worker)"
spent: Counter[str] = Counter()  # seconds by test, in the process that reports


def _processor_seconds() -> float:
    """User and system time of this process and of all that it has waited for."""
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    result = yield
    seconds = _processor_seconds()  # since the process started: its imports belong to it
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["collecting"] = seconds
    else:
        spent[COLLECTING] += seconds
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[STARTED] = _processor_seconds()
    return (yield)


STARTED = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    now = _processor_seconds()
    report.processor_seconds = now - item.stash[STARTED]
    item.stash[STARTED] = now
    return report


def pytest_runtest_logreport(report: Any) -> None:
    spent[report.nodeid] += getattr(report, "processor_seconds", 0.0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    spent[COLLECTING] += getattr(node, "workeroutput", {}).get("collecting", 0.0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if len(spent) <= SHOWN:
        return
    files: Counter[str] = Counter()
    for test, seconds in spent.items():
        files[test.partition("::")[0]] += seconds
    terminalreporter.section(f"{sum(spent.values()):.0f} s of processor time: the most expensive")
    for counted in (files, spent):
        for name, seconds in counted.most_common(SHOWN):
            terminalreporter.line(f"{seconds:7.1f} s  {name}")
        terminalreporter.line("")
