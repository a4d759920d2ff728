"""The project's size limits: files under 400 lines, functions under 60. Run by `make lint`."""

import ast
import sys
from pathlib import Path

MAX_FILE, MAX_FUNCTION = 400, 60
ROOT = Path(__file__).parents[1]


def violations(folder: Path) -> list[str]:
    """What is too long in a folder's Python files."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(ROOT)
        if (lines := text.count("\n")) >= MAX_FILE:
            found.append(f"{where}: {lines} lines; the limit is {MAX_FILE}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length >= MAX_FUNCTION:
                    found.append(f"{where}:{node.lineno} {node.name}: {length} lines")
    return found


if __name__ == "__main__":
    problems = [one for room in ("src", "tests", "benchmarks") for one in violations(ROOT / room)]
    print("\n".join(problems) or "sizes: all files and functions are within their limits")
    sys.exit(bool(problems))
