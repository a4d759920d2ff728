"""Tables of answers that a user would argue about."""


def read_table(text: str) -> list[tuple[str, str]]:
    """(gold, answer) pairs: a line that is not indented is a gold answer, and the indented lines
    below it hold answers with " // " between them.
    """
    pairs, gold = [], ""
    for line in text.strip("\n").splitlines():
        if not line.startswith(" "):
            gold = line
            continue
        pairs += [(gold, answer) for answer in line.strip().removesuffix(" //").split(" // ")]
    return pairs
