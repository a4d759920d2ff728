"""Writes docs/inspect.png and docs/inspect-run.png: what `pods inspect` shows of a run of the demo.

    pods demo      # 5 minutes, into runs/demo
    PYTHONPATH=tests python docs/site/inspector_pictures.py runs/demo/pods/seed-0

It needs chromium.
"""

import sys
import tempfile
from pathlib import Path

from podsrl.inspector.answers import featured
from podsrl.inspector.app import InspectorServer
from podsrl.inspector.index import Index
from podsrl.inspector.sources import Options, find_sources
from support.chromium import Chromium

DOCS = Path(__file__).parents[1]


def take_pictures(run: Path) -> None:
    """The run, and the newest prompt whose kept rollouts differ."""
    index = Index(lambda: find_sources([run], Options()))
    index.refresh()
    assert featured(index) is not None, f"no prompt of {run} has rollouts that differ"
    server = InspectorServer(index)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as profile, Chromium(Path(profile)) as browser:
            browser.look_as(1100, 900)
            browser.open(server.address)
            browser.wait_for("document.querySelectorAll('figure canvas').length > 5")
            browser.screenshot(DOCS / "inspect-run.png")
            browser.look_as(1100, 760)
            browser.run("location.hash = document.querySelector('.featured a').hash")
            browser.wait_for("document.querySelector('.cards mark')")
            browser.screenshot(DOCS / "inspect.png")
    finally:
        server.close()


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
