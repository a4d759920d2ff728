r"""Comparing numbers that are too large to be written out: 2004!, 9^{9^9}, \binom{10000}{5000}.

Exact arithmetic on them takes seconds, or for ever. They are compared by their remainders modulo
three primes of 62 bits instead, for which a power needs no more than its exponent modulo p - 1, and
a tower of powers the same again (Euler). Letters stand for random remainders, and so does what has
no remainder (a root, a sine, pi), by its name and those of its arguments.

Different remainders say that two numbers differ, or, where there are roots and the like, that they
are not shown to be equal: both are "no". Equal remainders are taken for a proof. That two different
numbers have the same three is as likely as to guess 186 bits (of polynomials: Schwartz and Zippel).
"""

import functools
import hashlib
import math

import sympy

#: A number of more bits is large.
_MOST_BITS = 4_096
#: An exponent, or the argument of a factorial, of more bits is not worked out.
_MOST_BITS_OF_EXPONENT = 64
#: A power of a sum with letters is large if it has more terms than this.
_MOST_TERMS = 1_000
#: The factors of a factorial that are multiplied one by one.
_MOST_FACTORS = 500_000
#: The largest primes below 2^62 for which (p - 1) / 2 is prime, too: powers of small numbers repeat
#: late modulo such a prime. Modulo 2^61 - 1, powers of 2 would repeat after 61.
_PRIMES = (4611686018427377339, 4611686018427376319, 4611686018427375743)


class _NoRemainderError(ArithmeticError):
    """A division by zero, modulo a prime, or an exponent that can't be reduced."""


def is_large(expression: sympy.Basic) -> bool:
    """Would exact arithmetic on the expression, as the parser left it, be slow?"""
    return any(_is_large(part) for part in sympy.preorder_traversal(expression))


def same_remainders(a: sympy.Basic, b: sympy.Basic) -> bool:
    """Are two expressions equal, modulo each of the primes?"""
    try:
        return all(_remainder(a, prime) == _remainder(b, prime) for prime in _PRIMES)
    except _NoRemainderError:
        return False


def _is_large(part: sympy.Basic) -> bool:
    if part.is_Rational or (isinstance(part, sympy.factorial) and not part.free_symbols):
        return _bits(part) > _MOST_BITS
    if not part.is_Pow:
        return False

    base, exponent = part.args
    if exponent.free_symbols:
        return False
    if not base.free_symbols:
        return _bits(part) > _MOST_BITS

    power = _small_integer(exponent)
    if power is None:
        return _bits(exponent) > _MOST_BITS_OF_EXPONENT
    terms = len(sympy.Add.make_args(base))
    return abs(power) > _MOST_TERMS or math.comb(abs(power) + terms - 1, terms - 1) > _MOST_TERMS


def _bits(constant: sympy.Basic) -> float:
    """At most so many bits are in a constant's numerator and denominator together; 0 for a root."""
    if constant.is_Rational:
        return float(constant.p.bit_length() + constant.q.bit_length())
    if constant.is_Add or constant.is_Mul:
        return sum(map(_bits, constant.args)) + len(constant.args)

    if constant.is_Pow:
        base, exponent = constant.args
        if exponent.is_Rational and not exponent.is_Integer:
            return _bits(base)
        power = _small_integer(exponent)
        growth = abs(power) if power is not None else math.inf
        bits_of_base = _bits(base)
        is_work = power is not None or _bits(exponent) > _MOST_BITS_OF_EXPONENT
        return growth * max(1.0, bits_of_base) if is_work else 0.0

    if isinstance(constant, sympy.factorial):
        argument = _small_integer(constant.args[0])
        return math.inf if argument is None else argument * math.log2(max(argument, 2))
    return 0.0


def _small_integer(constant: sympy.Basic) -> int | None:
    """The value of an integer of a few digits, worked out; None for all else."""
    if constant.is_Integer:
        return int(constant)
    if constant.free_symbols or _bits(constant) > _MOST_BITS_OF_EXPONENT:
        return None
    value = constant.doit()
    return int(value) if value.is_Integer else None


def _remainder(part: sympy.Basic, prime: int) -> int:
    """The remainder of an expression, with letters and irrational parts as random numbers."""
    if part.is_Rational:
        return int(part.p) * _inverse(int(part.q), prime) % prime
    if part.is_Add:
        return sum(_remainder(term, prime) for term in part.args) % prime
    if part.is_Mul:
        return math.prod(_remainder(factor, prime) for factor in part.args) % prime

    if part.is_Pow:
        base, exponent = part.args
        power = _small_integer(exponent)
        remainder = _remainder(base, prime)
        if power is not None:
            return pow(_inverse(remainder, prime) if power < 0 else remainder, abs(power), prime)
        if _is_natural(exponent):
            return pow(remainder, _exponent(exponent, prime - 1) + prime - 1, prime)

    if isinstance(part, sympy.factorial):
        argument = _small_integer(part.args[0])
        if argument is not None and 0 <= argument <= _MOST_FACTORS:
            return _factorial(argument, prime)

    arguments = [part] if not part.args else [part.func.__name__, *_of_arguments(part, prime)]
    digest = hashlib.sha256(f"{prime} {arguments}".encode()).digest()
    return int.from_bytes(digest, "big") % prime


def _of_arguments(part: sympy.Basic, prime: int) -> list[object]:
    """The remainders of a function's arguments; what is none, the bounds of a sum, as it stands."""
    return [
        _remainder(argument, prime) if isinstance(argument, sympy.Expr) else argument
        for argument in part.args
    ]


def _inverse(number: int, modulus: int) -> int:
    try:
        return pow(number, -1, modulus)
    except ValueError as error:
        raise _NoRemainderError from error


def _is_natural(exponent: sympy.Basic) -> bool:
    """Is it made of positive integers, by what keeps them so? (Of a difference nobody knows.)"""
    if exponent.is_Integer:
        return bool(exponent > 0)
    if isinstance(exponent, sympy.factorial):
        argument = _small_integer(exponent.args[0])
        return argument is not None and 0 <= argument <= _MOST_FACTORS
    return (exponent.is_Add or exponent.is_Mul or exponent.is_Pow) and all(
        map(_is_natural, exponent.args)
    )


def _exponent(part: sympy.Basic, modulus: int) -> int:
    """The remainder of an exponent for which `_is_natural` holds; the modulus may be no prime."""
    if part.is_Integer:
        return int(part) % modulus
    if part.is_Add:
        return sum(_exponent(term, modulus) for term in part.args) % modulus
    if part.is_Mul:
        return math.prod(_exponent(factor, modulus) for factor in part.args) % modulus
    if not part.is_Pow:
        return _factorial(int(part.args[0].doit()), modulus)

    base, exponent = part.args
    power = _small_integer(exponent)
    if power is None:
        # Euler's theorem, for a base that may share factors with the modulus: it holds for
        # exponents of at least its bits, and this one has more.
        order = _totient(modulus)
        power = _exponent(exponent, order) + order
    return pow(_exponent(base, modulus), power, modulus)


@functools.lru_cache(maxsize=256)
def _totient(modulus: int) -> int:
    return int(sympy.totient(modulus))


@functools.lru_cache(maxsize=256)
def _factorial(argument: int, modulus: int) -> int:
    product = 1
    for factor in range(2, argument + 1):
        product = product * factor % modulus
    return product
