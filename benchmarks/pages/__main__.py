"""Every measured number of the README and the evidence page, from the raw files: one command.

python -m benchmarks.pages            # writes the blocks anew
python -m benchmarks.pages --check    # fails where a page says other than the files
"""

import argparse
import sys

from benchmarks.folders import ROOT
from benchmarks.pages.blocks import PAGES, names_of_blocks, rewritten
from podsrl.rollout_log.files import write_whole


def main(argv: list[str] | None = None) -> int:
    """Write the blocks of all pages, or say where one is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one is stale")
    args = parser.parse_args(argv)

    some_are_stale = False
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = rewritten(before)

        if after == before:
            state = "as the files say"
        elif args.check:
            state = "stale"
            some_are_stale = True
        else:
            state = "written anew"
            write_whole(page, after.encode())
        blocks = ", ".join(names_of_blocks(before)) or "no block"
        print(f"{page.relative_to(ROOT)}: {blocks}: {state}")

    return 1 if some_are_stale else 0


if __name__ == "__main__":
    sys.exit(main())
