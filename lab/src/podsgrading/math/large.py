r"""Comparing numbers that are too large to be written out: 2004!, 9^{9^9}, \binom{10000}{5000}.

Exact arithmetic on them takes seconds, or for ever. They are compared by their remainders modulo
three primes of 62 bits instead, for which a power needs no more than its exponent modulo p - 1, and
a tower of powers the same again (Euler). Roots are powers, too. A letter stands for a random
remainder, and so does what has none, a sine or pi, by its name and those of its arguments.

Different remainders say that two numbers differ or, where there are roots and the like, that they
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
#: The largest primes p below 2^62 for which (p - 1) / 2 is prime, too, so that the powers of a
#: number repeat late: modulo 2^61 - 1, those of 2 would after 61. And modulo which 2, 3, 5, ..., 19
#: are squares, so that the root of 8 is twice that of 2.
_PRIMES = (4611686018427179639, 4611686018427079679, 4611686018427065399)
#: What grows faster than what it is given.
_GROWING = (sympy.factorial, sympy.binomial, sympy.Product, sympy.Sum)


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
    is_constant = not part.free_symbols
    if part.is_Rational or (isinstance(part, _GROWING) and is_constant):
        return _bits(part) > _MOST_BITS
    if not part.is_Pow:
        return False

    base, exponent = part.args
    if exponent.free_symbols:
        return False
    if is_constant:
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

    if isinstance(constant, _GROWING):
        factors, largest = _factors(constant)
        return factors * max(1.0, largest)
    return 0.0


def _factors(growing: sympy.Basic) -> tuple[float, float]:
    """At most how many parts a factorial, binomial, product or sum of numbers has, and their bits.

    0 for infinitely many: a series is not added up term by term.
    """
    if isinstance(growing, (sympy.Product, sympy.Sum)):
        _, lower, upper = growing.args[1]
        if lower.is_infinite or upper.is_infinite:
            return 0.0, 0.0
        count = _small_integer(upper - lower)
        return (math.inf if count is None else abs(count), max(1.0, _bits(upper)))

    argument = _small_integer(growing.args[0])
    return (math.inf, 0.0) if argument is None else (abs(argument), math.log2(abs(argument) + 1))


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
        if exponent.is_Rational and _is_positive(base):
            return _root(remainder, int(exponent.p), int(exponent.q), prime)

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


def _is_positive(base: sympy.Basic) -> bool:
    """Is it made of positive numbers, by what keeps them so? Then its root is, too."""
    if base.is_Rational:
        return bool(base > 0)
    if base.is_Pow and base.args[1].is_Rational:
        return _is_positive(base.args[0])
    if base.is_Add or base.is_Mul:
        return all(map(_is_positive, base.args))
    return _is_natural(base)


def _root(remainder: int, power: int, degree: int, prime: int) -> int:
    """The remainder to the power / degree.

    Of square roots, the one that is a square itself: so a product's root is that of its factors.
    """
    while degree % 2 == 0:
        remainder = pow(remainder, (prime + 1) // 4, prime)
        degree //= 2
    exponent = power * _inverse(degree, prime - 1) % (prime - 1)
    return pow(remainder, exponent, prime)


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
