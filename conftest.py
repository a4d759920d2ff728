"""What pytest collects, and what it reports of the cost."""

import gc
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent
pytest_plugins = ["support.cost", "support.tiny_model", "support.unhurried"]


def _has_doctests(path: Path) -> bool:
    return ">>> " in path.read_text(encoding="utf-8")


# To collect the doctests of a module is to import it; few have any, and some import much.
SOURCES = (ROOT / "src", ROOT / "lab" / "src", ROOT / "benchmarks")
collect_ignore = []
for source in SOURCES:
    for path in source.rglob("*.py"):
        is_of_tests = path.name.startswith("test_")
        if not is_of_tests and not _has_doctests(path):
            collect_ignore.append(str(path))
# nor are the files of fixtures read for doctests: all of them have one name
collect_ignore_glob = ["*/conftest.py"]


def pytest_collection_finish() -> None:
    """Garbage is not looked for in all that was imported: every training collects it once."""
    gc.freeze()


# No test is timed: a busy machine is no defect.
with suppress(ImportError):  # the environments of verl and of the site have no hypothesis
    from hypothesis import settings

    settings.register_profile("podsrl", deadline=None)
    settings.load_profile("podsrl")
