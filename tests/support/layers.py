"""What the modules of a package import from each other, read from their code."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path


def imports_that_go_up(package: Path, layers: Sequence[Sequence[str]]) -> list[str]:
    """The imports inside a package that don't go down, as "trl/trainer.py imports cli".

    Those inside functions count, too. Neighbours, which stand in one layer, know nothing of each
    other. The package's own `__init__` may import everything.

    Args:
        package: The folder of the package.
        layers: The names of its modules and folders, the highest first.
    """
    depth_of = {name: depth for depth, layer in enumerate(layers) for name in layer}

    wrong = []
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package)
        place = file.parts[0].removesuffix(".py")
        if place == "__init__":
            continue
        if place not in depth_of:
            wrong.append(f"{file} is in no layer: give {place!r} its place in LAYERS")
            continue

        for imported in sorted(set(_imported_places(path, package.name))):
            depth = depth_of.get(imported, -1)
            if imported != place and depth <= depth_of[place]:
                wrong.append(f"{file} imports {imported}")
    return wrong


def places(package: Path) -> set[str]:
    """The names of a package's modules and folders of modules."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    return modules | folders


def _imported_places(path: Path, package: str) -> Iterator[str]:
    """The module or folder of the package that each import of a file is from."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            root, *below = name.split(".")
            if root == package and below[0] != "__version__":
                yield below[0]
