"""A number that carries the text of its computation."""

from __future__ import annotations


class Term(float):
    """A number with the text of its computation.

    Sums, products and quotients of terms are terms, so that a function which computes with numbers
    also explains its result when it is called with terms. Factors of 1 and addends of 0 are left
    out; a difference is a number of its own.

    >>> (Term(0.9) * (Term(1.28, "s") / Term(4, "vCPUs") + 0.5)).text
    '0.9 x (1.28 s / 4 vCPUs + 0.5)'
    """

    text: str
    _is_sum: bool

    def __new__(cls, value: float, unit: str = "") -> Term:
        """Return a number with its unit."""
        return cls._made(value, f"{_figure(value)} {unit}".rstrip())

    @classmethod
    def _made(cls, value: float, text: str, *, is_sum: bool = False) -> Term:
        term = super().__new__(cls, value)
        term.text, term._is_sum = text, is_sum
        return term

    def __add__(self, other: float) -> float:
        if not other:
            return self
        return Term._made(
            float(self) + float(other), f"{self.text} + {text_of(other)}", is_sum=True
        )

    def __radd__(self, other: float) -> float:
        return Term(other) + self if other else self

    def __rsub__(self, other: float) -> float:
        return Term(other - float(self))

    def __mul__(self, other: float) -> float:
        return _multiplied(self, other)

    def __rmul__(self, other: float) -> float:
        return _multiplied(other, self)

    def __truediv__(self, other: float) -> float:
        if other == 1:
            return self
        return Term._made(float(self) / float(other), f"{_factor(self)} / {_factor(other)}")


def text_of(number: float) -> str:
    """Return the computation of a term, or another number itself."""
    return number.text if isinstance(number, Term) else _figure(number)


def _multiplied(left: float, right: float) -> float:
    if 1 in (left, right):
        return right if left == 1 else left
    product = float(left) * float(right)
    return Term._made(product, f"{_factor(left)} x {_factor(right)}")


def _factor(number: float) -> str:
    is_sum = isinstance(number, Term) and number._is_sum
    return f"({text_of(number)})" if is_sum else text_of(number)


def _figure(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4g}"
