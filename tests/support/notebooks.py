"""Runs the notebooks of examples/ and writes their outputs into them: `nox -s notebooks`."""

import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


def execute(path: Path, folder: Path) -> Any:
    """The notebook with its outputs, run in `folder`."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    return notebook


def without_progress(notebook: Any) -> Any:
    """The notebook as it is committed: no progress bars or warnings of the machine that ran it.

    Nor the frame of an app, which has ended with the process that served it.
    """
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [o for o in cell.outputs if not _is_passing(o)]
    return notebook


def _is_passing(output: Any) -> bool:
    return output.get("name") == "stderr" or "<iframe" in output.get("data", {}).get(
        "text/html", ""
    )


if __name__ == "__main__":
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(without_progress(execute(path, Path(folder))), path)
