"""Where in a completion its answer stands. Every function here takes time linear in the text."""

import re
from typing import NamedTuple

from podsgrading.retraction import CONFIRMATIONS, find_retraction

#: An answer longer than this is not read: no gold answer comes near it.
MAX_ANSWER = 2_000
#: What is read of a completion without tags: its end, some 250,000 tokens.
MAX_TAIL = 1_000_000
#: What may stand around an answer: mathematics signs, bold type, code.
DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`"))

#: Boxes that are farther apart are separate answers, whatever stands between them.
_MAX_BETWEEN_BOXES = 40
#: Characters of a box without braces.
_MAX_BARE = 200

# Repetitions are bounded ("\s{0,9}", not "\s*"), so that no text makes a pattern quadratic.
_BOX = re.compile(r"\\f?box(?:ed)?\s{0,9}\{|\\(?:boxed|fbox)(?![a-zA-Z])[ \t]{0,9}")

# A box without braces holds a value up to the next white space, and no word: "in \\boxed form".
_BARE_START = re.compile(
    r"(?!\\(?:boxed|fbox))(?:[-+]?(?:\.?[0-9]|\\[a-zA-Z{$])|[(\[]"
    r"|[a-zA-Z](?=[ \t]{0,9}(?:$|[.,;$=^_+]|\\[)\]])))",
    re.MULTILINE,
)
_BARE_PART = re.compile(
    r"(?!\\(?:boxed|fbox))\\[a-zA-Z]+(?:[ ](?=[0-9a-zA-Z{]))?"  # "\\frac 12" is one value
    r"|\\[%${}!,;]|[(\[][^()\[\]$\n]{0,99}[)\]]|[^\s$\\{}()\[\]]"
)
_BETWEEN_BOXES = re.compile(r"\b(?:and|or)\b|\\text|\\quad|\b[a-zA-Z]\s*=|[\s,;$&{}()\\]")
_OR = re.compile(r"\bor\b")

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)  # cut off or not
_HASHES = re.compile(r"^\s{0,9}####\s?(.*)$", re.MULTILINE)

_ANSWER = re.compile(r"\banswer\b", re.IGNORECASE)
_CHOICE = re.compile(r"\b(?:answer|option|choice)\b(?!\s?\(?[A-Z]\b)", re.IGNORECASE)
_DECLARES = re.compile(r"(?:\s{1,9}is\b\s{0,9}:?|\s{0,9}\**[:=])[\s*]{0,9}(.*)", re.IGNORECASE)
_HEADING = re.compile(r"[\s#*]*(?:(?:so|thus|therefore|the|my|final|correct),?\s)*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?:\s(?!\s?=)|$)")  # but not in "5! = 120"

# A remark about an answer: "this answer is correct, since ...", "no other answer is possible", "the
# answer is in dollars". "A right triangle" is an answer, and "correct: 9" may be one.
_JUDGEMENTS = (*CONFIRMATIONS, "reasonable", "possible", "plausible", "sensible", "accurate")
_ADVERBS = r"(?:(?:also|both|clearly|indeed|now|quite|still|therefore|thus|very|an?|the)\s){0,3}"
_JUDGEMENT = rf"(?P<judgement>{'|'.join(_JUDGEMENTS)})(?:\s(?:one|number|result|solution|value))?"
_REASON = r",?\s(?:as|because|since)\b"
_DETAIL = r"(?:,?\s(?:and|by|for|given|in|to|with)(?:\s[a-zA-Z]{2,30}){1,12})?"
_UNIT_OR_FORM = r"in\s(?!(?:the|an?|fact)\s)(?:[a-z]{2,30}\s){0,2}(?:[a-z]{2,30}s|form)"
_FULL_STOP = r"[*\s]{0,9}(?:[.!](?:\s|$)|$)"
_REMARK = re.compile(
    r"\s{1,9}(?i:is)\s{1,9}"
    rf"(?:{_ADVERBS}{_JUDGEMENT}(?:{_REASON}|{_DETAIL}{_FULL_STOP})|{_UNIT_OR_FORM}{_FULL_STOP})"
)
#: With these before it, a judgement is the contrary: "invalid", which "valid" corrects.
_NEGATIONS = ("not ", "in", "im", "un")
#: As far back the contrary is looked for.
_MAX_BEFORE = 200

_LAST_NUMBER = re.compile(r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,50})(?:\.[0-9]{1,50})?")


class Box(NamedTuple):
    r"""A \boxed{...}: where it starts and ends in its text, and what it holds."""

    start: int
    end: int
    content: str


def answer_tag(text: str) -> str | None:
    """The text between the last <answer> that is closed and the first </answer> after it.

    None without one. What stands between <think> tags is not looked at.

    >>> answer_tag("<answer>1</answer> no: <answer> 2 </answer>")
    '2'
    >>> answer_tag("<answer>1</answer> I am sure. </answer>"), answer_tag("<answer>1")
    ('1', None)
    """
    tag = _last_tag(text)
    return None if tag is None else tag[0]


def _last_tag(text: str) -> tuple[str, str] | None:
    """The content of `answer_tag`, and what follows its closing tag."""
    text = _THOUGHT.sub("", text)
    last_closing = max(0, text.rfind("</answer>"))
    start = text.rfind("<answer>", 0, last_closing)
    if start < 0:
        return None
    content, _, after = text[start + len("<answer>") :].partition("</answer>")
    return content.strip(), after


def closing_braces(text: str, start: int = 0, pair: str = "{}") -> dict[int, int]:
    """Where each brace of a pair that is opened from `start` on is closed, by its own place.

    An escaped brace, as in a set, counts for nothing.

    >>> closing_braces("{a{b}} {")
    {2: 4, 0: 5}
    """
    opening = pair[0]
    closing = pair[1]
    open_places: list[int] = []
    closed: dict[int, int] = {}

    for match in re.compile(rf"\\.|[{pair}]", re.DOTALL).finditer(text, start):
        if match[0] == opening:
            open_places.append(match.start())
        elif match[0] == closing and open_places:
            closed[open_places.pop()] = match.start()

    return closed


def boxes(text: str) -> list[Box]:
    r"""Each closed \boxed{...} that is in no other.

    Only the last `MAX_TAIL` characters are read.

    >>> [box.content for box in boxes(r"so \boxed{\frac{1}{2}} or \fbox{3} or $\boxed 4$")]
    ['\\frac{1}{2}', '3', '4']
    """
    tail = max(0, len(text) - MAX_TAIL)
    closed = closing_braces(text, tail)

    outer_boxes: list[Box] = []
    position = tail
    while match := _BOX.search(text, position):
        position = match.end()
        if not match[0].endswith("{"):
            end = _end_of_bare_content(text, position, closed)
            if end > position:
                outer_boxes.append(Box(match.start(), end, text[position:end]))
            position = end
            continue

        brace = position - 1
        if brace not in closed or closed[brace] - position > MAX_ANSWER:
            continue

        end = closed[brace]
        outer_boxes.append(Box(match.start(), end + 1, text[position:end].strip()))
        position = end + 1  # boxes inside this one are passed over

    return outer_boxes


def _end_of_bare_content(text: str, start: int, closed: dict[int, int]) -> int:
    r"""Where the content of a box without braces ends; `start` if no value begins there.

    TeX would put one digit of "\\boxed 12" into the box; who writes it means the number.
    """
    if not _BARE_START.match(text, start):
        return start

    position = start
    while position - start < _MAX_BARE:
        if position in closed:
            position = closed[position] + 1
        elif part := _BARE_PART.match(text, position):
            position = part.end()
        else:
            break

    content = text[start : min(position, start + MAX_ANSWER)]
    return start + len(content.rstrip(" .,;:!?*"))


def last_boxes(text: str) -> str | None:
    r"""The last box; several with only ",", "and" or "or" between them are one list.

    None if the last box that is opened is cut off, or longer than `MAX_ANSWER`: the answer that it
    was to hold is not known, and an earlier box is what the completion thought before. (So does
    `last_boxed_only_string` of MATH's official grader.)

    >>> last_boxes(r"first \boxed{1}, no: $x = \boxed{2}$ and $\boxed{3}$.")
    '2, 3'
    """
    all_boxes = boxes(text)
    if not all_boxes or _start_of_cut_off_box(text) is not None:
        return None

    last = all_boxes[-1]
    answer = unwrapped(last.content)
    contents = {last.content}
    later = last

    for box in reversed(all_boxes[:-1]):
        between = text[box.end : later.start]
        if len(between) > _MAX_BETWEEN_BOXES or _BETWEEN_BOXES.sub("", between):
            break
        joint = " or " if _OR.search(between) else ", "
        answer = f"{box.content}{joint}{answer}"
        contents.add(box.content)
        later = box

    # The same box several times is one answer, not a list.
    return answer if len(contents) > 1 else unwrapped(last.content)


def _start_of_cut_off_box(text: str) -> int | None:
    """Where the last box that is opened starts, if it is not closed or too long; else None."""
    matches = _BOX.finditer(text, max(0, len(text) - MAX_TAIL))
    openings = [match for match in matches if match[0].endswith("{")]
    if not openings:
        return None

    last = openings[-1]
    brace = last.end() - 1
    end = closing_braces(text, brace).get(brace)
    is_whole = end is not None and end - last.end() <= MAX_ANSWER
    return None if is_whole else last.start()


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

    all_boxes = boxes(text)
    if len(all_boxes) == 1 and (all_boxes[0].start, all_boxes[0].end) == (0, len(text)):
        return all_boxes[0].content
    return text


def hashes(text: str) -> str | None:
    """The text after the last "####" that begins a line, as in GSM8K's own solutions."""
    answers = _HASHES.findall(text[-MAX_TAIL:])
    return answers[-1].strip() if answers else None


def answer_phrase(text: str, noun: re.Pattern[str] = _ANSWER) -> str | None:
    """The text after the last "answer is" or "answer:", to the end of its sentence or line.

    Where a heading says no more than "Answer:", it is the next line. A remark about an answer
    stated before, "this answer is correct", is passed over.

    Args:
        text: a completion, or its end.
        noun: what may stand in the place of "answer".

    >>> answer_phrase("The answer is 7? No. So the final answer is: **8.5 cm**. Done.")
    '8.5 cm'
    """
    answer, _ = _last_phrase(text, noun)
    return answer or None


def _last_phrase(text: str, noun: re.Pattern[str]) -> tuple[str, str]:
    """The answer of `answer_phrase`, and what follows it; two empty texts without one."""
    tail = text[-MAX_TAIL:]
    answer = ""
    end = len(tail)

    lines: list[tuple[int, str]] = []
    start = 0
    for line in tail.splitlines(keepends=True):
        if line.strip(" $\\[\r\n"):
            lines.append((start, line.rstrip("\r\n")))
        start += len(line)

    for (start, line), (next_start, next_line) in zip(lines, [*lines[1:], (0, "")], strict=False):
        declaring_noun = _declaring_noun(line, noun, answer)
        phrase = _DECLARES.match(line, declaring_noun.end()) if declaring_noun else None
        if declaring_noun is None or phrase is None:
            continue

        is_heading = not phrase[1] and _HEADING.fullmatch(line, 0, declaring_noun.start())
        statement = next_line if is_heading else phrase[1]
        if statement:
            sentence = _SENTENCE_END.split(statement, maxsplit=1)[0]
            answer = sentence.strip(" *")
            end = len(sentence) + (next_start if is_heading else start + phrase.start(1))

    return answer, tail[end:]


def _declaring_noun(line: str, noun: re.Pattern[str], earlier: str) -> re.Match[str] | None:
    """The last noun of a line, remarks about an answer stated before passed over.

    Where none was stated, in the line or `earlier`, "the answer is possible" is no remark.
    """
    nouns = list(noun.finditer(line))
    without_remarks = list(nouns)
    while without_remarks and _is_remark(line, without_remarks[-1], earlier):
        without_remarks.pop()

    declares = without_remarks and _DECLARES.match(line, without_remarks[-1].end())
    counting = without_remarks if earlier or declares else nouns
    return counting[-1] if counting else None


def _is_remark(line: str, noun: re.Match[str], earlier: str) -> bool:
    """Whether what follows a noun judges an answer, and does not say the contrary of it."""
    remark = _REMARK.match(line, noun.end())
    if remark is None:
        return False

    judgement = remark["judgement"]
    before = line[max(0, noun.start() - _MAX_BEFORE) : noun.start()]
    said = f"{earlier[:_MAX_BEFORE]} {before}".lower()
    return judgement is None or not any(f"{no}{judgement}" in said for no in _NEGATIONS)


def declared_answer(text: str) -> str | None:
    r"""The answer that a completion declares; None if it declares none.

    In this order, and nothing between <think> tags: the <answer> tag; else, after the reasoning,
    the last \boxed{}, the last "#### ...", the last "answer is ...". If the last box is cut off,
    only what follows its start counts. An answer longer than `MAX_ANSWER` is none. One that the
    text takes back afterwards (`podsgrading.retraction`) gives way to the one in its place, if any.

    >>> declared_answer(r"<think>\boxed{1}</think><answer>\boxed{2}</answer>")
    '2'
    >>> declared_answer("I count 3 apples") is None
    True
    """
    answer, rest = _stated_answer(text)
    if answer is not None and (retraction := find_retraction(rest, answer)):
        answer = retraction.answer
    return answer if answer and len(answer) <= MAX_ANSWER else None


def _stated_answer(text: str) -> tuple[str | None, str]:
    """The answer of `declared_answer` before it is taken back, and what the text says after it."""
    if tag := _last_tag(text):
        content, after_tag = tag
        answer = None if len(content) > MAX_ANSWER else last_boxes(content) or content
        return answer, after_tag

    after_thought = _after_thought(text)
    cut_off = _start_of_cut_off_box(after_thought)
    rest = after_thought if cut_off is None else after_thought[cut_off:]

    if boxed := last_boxes(rest):
        return boxed, rest[boxes(rest)[-1].end :]
    if after_hashes := hashes(rest):
        return after_hashes, rest[list(_HASHES.finditer(rest))[-1].end() :]
    phrase, after_phrase = _last_phrase(rest, _ANSWER)
    return phrase or None, after_phrase


def declarations(text: str) -> list[str]:
    r"""Everything that a completion declares to be its answer, what counts first at the beginning.

    First `declared_answer`; then, in the tag or after the reasoning, the last "#### ...", the last
    "answer is ..." or "option is ...", and the boxes from the last one. If the answer is taken
    back, only the one in its place.

    >>> declarations(r"\boxed{E < 0}. **Answer: D**"), declarations("The right option is D.")
    (['E < 0', 'D'], ['D'])
    """
    stated, after = _stated_answer(text)
    answer = declared_answer(text)
    if stated is not None and find_retraction(after, stated):
        return [] if answer is None else [answer]

    tag = answer_tag(text)
    stretch = _after_thought(text) if tag is None else tag
    cut_off = _start_of_cut_off_box(stretch)
    rest = stretch if cut_off is None else stretch[cut_off:]

    found = [answer, hashes(rest), answer_phrase(rest, _CHOICE)]
    if cut_off is None:
        found += [box.content for box in reversed(boxes(rest))]
    return list(dict.fromkeys(answer for answer in found if answer and len(answer) <= MAX_ANSWER))


def _after_thought(text: str) -> str:
    """The text after the reasoning; a prompt may have opened the <think> that `text` closes."""
    return text.rpartition("</think>")[2].partition("<think>")[0]


def possible_answers(text: str) -> list[str]:
    r"""The answers of the lenient modes: the last tag's content, all text, the last number.

    The last tag counts, closed or not, as in the authors' `extract_xml_answer`.

    >>> possible_answers(r"<answer>\boxed{7}"), possible_answers("2 + 5 is 7")
    (['7', '<answer>\\boxed{7}'], ['2 + 5 is 7', '7'])
    """
    tail = text[-MAX_TAIL:]
    tag = tail.rpartition("<answer>")[2].partition("</answer>")[0].strip()
    last_number = _LAST_NUMBER.findall(tail)[-1:]

    candidates = [last_boxes(tag) or tag, tail.strip(), *last_number]
    different = dict.fromkeys(candidates)
    return [candidate for candidate in different if len(candidate) <= MAX_ANSWER]


def answers_to_compare(text: str, mode: str) -> list[str]:
    """The `possible_answers` of a completion in "lenient" mode, else the declared one if any."""
    if mode == "lenient":
        return possible_answers(text)

    answer = declared_answer(text)
    return [] if answer is None else [answer]
