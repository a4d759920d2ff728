"""What a program says, without its comments and layout: for grading equal programs once.

Runs in a grading process: the parser's time and memory on hostile text are not ours to promise.
"""

import ast
import hashlib
import warnings


def fingerprint(code: str) -> str:
    """The same text for programs with the same syntax tree; "" if `code` is not Python.

    Only parses, never compiles or runs. What the parser gives up on for another reason than the
    syntax is its own fingerprint: the sandbox will tell.

    >>> fingerprint("f(1, 2)") == fingerprint("f( 1,2 )  # again"), fingerprint("f(1,, 2)")
    (True, '')
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes such as "\\d", which still run
            tree = ast.parse(code)
    except (SyntaxError, ValueError):  # ValueError: null bytes, lone surrogates
        return ""
    except (RecursionError, MemoryError):
        return _digest(code)
    try:
        return _digest(ast.dump(tree))
    except (RecursionError, MemoryError, ValueError):  # ValueError: an integer of 5,000 digits
        return _digest(code)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
