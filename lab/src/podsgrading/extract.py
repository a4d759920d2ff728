"""Where in a completion its answer stands. Every function here takes time linear in the text."""

import re

#: An answer longer than this is not read: no gold answer comes near it.
MAX_ANSWER = 2_000
#: What is read of a completion without tags: its end.
MAX_TAIL = 20_000

_BOX = re.compile(r"\\f?box(?:ed)?\s{0,9}\{")
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)  # cut off or not
_BETWEEN_BOXES = re.compile(r"\b(?:and|or)\b|\\text|\\quad|\b[a-zA-Z]\s*=|[\s,;$&{}()\\]")
_HASHES = re.compile(r"^\s{0,9}####\s?(.*)$", re.MULTILINE)
_PHRASE = re.compile(
    r"\banswer\b(?:\s{1,9}is\b\s{0,9}:?|\s{0,9}\**[:=])[\s*]{0,9}(.*)", re.IGNORECASE
)
_HEADING = re.compile(r"[\s#*]*(?:(?:so|thus|therefore|the|my|final|correct),?\s)*", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,50})(?:\.[0-9]{1,50})?")
_SENTENCE_END = re.compile(r"[.!?](?:\s(?!\s?=)|$)")  # but not in "5! = 120"


def answer_tag(text: str) -> str | None:
    """What stands between the last <answer> that is closed and the first </answer> after it.

    None without one. What stands between <think> tags is not looked at.

    >>> answer_tag("<answer>1</answer> no: <answer> 2 </answer>")
    '2'
    >>> answer_tag("<answer>1</answer> I am sure. </answer>"), answer_tag("<answer>1")
    ('1', None)
    """
    text = _THOUGHT.sub("", text)
    start = text.rfind("<answer>", 0, max(0, text.rfind("</answer>")))
    return text[start + len("<answer>") :].partition("</answer>")[0].strip() if start >= 0 else None


def closing_braces(text: str, start: int = 0, pair: str = "{}") -> dict[int, int]:
    """Where each brace of a pair that is opened from `start` on is closed, by its own place.

    An escaped brace, as in a set, counts for nothing.

    >>> closing_braces("{a{b}} {")
    {2: 4, 0: 5}
    """
    opened, closed = [], {}
    for match in re.compile(rf"\\.|[{pair}]", re.DOTALL).finditer(text, start):
        if match[0] == pair[0]:
            opened.append(match.start())
        elif match[0] == pair[1] and opened:
            closed[opened.pop()] = match.start()
    return closed


def boxes(text: str) -> list[tuple[int, int, str]]:
    r"""Each closed \boxed{...} that is in no other: its start, its end and what it holds.

    Only the last `MAX_TAIL` characters are read.

    >>> [box for _, _, box in boxes(r"so \boxed{\frac{1}{2}} or \fbox{3}")]
    ['\\frac{1}{2}', '3']
    """
    offset = max(0, len(text) - MAX_TAIL)
    found: list[tuple[int, int, str]] = []
    closed, position = closing_braces(text, offset), offset
    while match := _BOX.search(text, position):
        position = match.end()
        end = closed.get(position - 1)
        if end is not None and end - position <= MAX_ANSWER:
            found.append((match.start(), end + 1, text[position:end].strip()))
            position = end + 1
    return found


def last_boxes(text: str) -> str | None:
    r"""The last box; several with only ",", "and" or "or" between them are one list.

    >>> last_boxes(r"first \boxed{1}, no: $x = \boxed{2}$ and $\boxed{3}$.")
    '2, 3'
    """
    found = boxes(text)
    if not found:
        return None
    answer, said = (last := unwrapped(found[-1][2])), {found[-1][2]}
    for (_, end, content), (start, _, _) in zip(found[-2::-1], found[:0:-1], strict=True):
        if start - end > 40 or _BETWEEN_BOXES.sub("", text[end:start]):
            break
        joint = " or " if re.search(r"\bor\b", text[end:start]) else ", "
        answer, said = f"{content}{joint}{answer}", said | {content}
    return answer if len(said) > 1 else last  # the same one several times


#: What may stand around an answer: mathematics signs, bold type, code.
DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`"))


def unwrapped(text: str) -> str:
    r"""`text` without the box, the mathematics signs or the bold type that hold all of it.

    >>> unwrapped(r"$\boxed{5}$"), unwrapped("**a, b**"), unwrapped("$1$ and $2$")
    ('5', 'a, b', '$1$ and $2$')
    """
    text = text.strip()
    for opening, closing in DELIMITERS:
        inside = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and opening not in inside:
            text = inside.strip()
    found = boxes(text)
    return found[0][2] if len(found) == 1 and found[0][:2] == (0, len(text)) else text


def hashes(text: str) -> str | None:
    """What follows the last "####" that begins a line, as in GSM8K's own solutions."""
    found = _HASHES.findall(text[-MAX_TAIL:])
    return found[-1].strip() if found else None


def answer_phrase(text: str) -> str | None:
    """What follows the last "answer is" or "answer:", to the end of its sentence or line.

    Where a heading says no more than "Answer:", it is the next line.

    >>> answer_phrase("The answer is 7? No. So the final answer is: **8.5 cm**. Done.")
    '8.5 cm'
    """
    found = ""
    lines = [line for line in text[-MAX_TAIL:].splitlines() if line.strip(" $\\[")]
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        starts = [match.start() for match in re.finditer(r"\banswer\b", line, re.IGNORECASE)]
        if not starts or not (match := _PHRASE.match(line, starts[-1])):
            continue
        heading = not match[1] and _HEADING.fullmatch(line, 0, starts[-1])
        if rest := after if heading else match[1]:
            found = _SENTENCE_END.split(rest, maxsplit=1)[0].strip(" *")
    return found or None


def declared_answer(text: str) -> str | None:
    r"""The answer that a completion declares; None if it declares none.

    In this order, and nothing between <think> tags: the <answer> tag; else, after the reasoning,
    the last \boxed{}, the last "#### ...", the last "answer is ...". An answer longer than
    `MAX_ANSWER` is none.

    >>> declared_answer(r"<think>\boxed{1}</think><answer>\boxed{2}</answer>")
    '2'
    >>> declared_answer("I count 3 apples") is None
    True
    """
    tag = answer_tag(text)
    if tag is not None:
        answer: str | None = tag if len(tag) > MAX_ANSWER else last_boxes(tag) or tag
    else:
        rest = text.rpartition("</think>")[2].partition("<think>")[0]  # a prompt may have opened it
        answer = last_boxes(rest) or hashes(rest) or answer_phrase(rest)
    return answer if answer and len(answer) <= MAX_ANSWER else None


def possible_answers(text: str) -> list[str]:
    r"""What the lenient modes compare: the last tag's content, all text, the last number.

    The last tag counts, closed or not, as in the authors' `extract_xml_answer`.

    >>> possible_answers(r"<answer>\boxed{7}"), possible_answers("2 + 5 is 7")
    (['7', '<answer>\\boxed{7}'], ['2 + 5 is 7', '7'])
    """
    tail = text[-MAX_TAIL:]
    tag = tail.rpartition("<answer>")[2].partition("</answer>")[0].strip()
    texts = [last_boxes(tag) or tag, tail.strip(), *_LAST_NUMBER.findall(tail)[-1:]]
    return [text for text in dict.fromkeys(texts) if len(text) <= MAX_ANSWER]


def answers_to_compare(text: str, mode: str) -> list[str]:
    """The `possible_answers` of a completion in "lenient" mode, else the declared one if any."""
    if mode == "lenient":
        return possible_answers(text)
    answer = declared_answer(text)
    return [] if answer is None else [answer]
