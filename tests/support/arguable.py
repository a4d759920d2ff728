"""Answers that a user would argue about: in the form that is asked for, and in tables."""


def answered(content: str) -> str:
    return f"<think>\nso\n</think>\n<answer>\n{content}\n</answer>"


def read_table(text: str) -> list[tuple[str, str]]:
    """(gold, answer) pairs: a line is a gold answer, " :: " and answers with " // " between them.

    Indented lines go on with the answers, and what begins with # is a comment.
    """
    pairs = []
    gold = ""
    for line in text.strip("\n").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            gold, _, line = line.partition(" :: ")
        pairs += [(gold, answer) for answer in line.strip().removesuffix(" //").split(" // ")]
    return pairs
