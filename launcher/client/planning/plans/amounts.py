"""The planner's amounts: a measure carries its range, a term the text of its computation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measured amount, with the range that its mean lies in.

    Measures are inputs of predictions; an Interval is a prediction.
    deviation: the standard deviation of single samples around the mean, 0 if unknown.
    """

    mean: float
    low: float
    high: float
    deviation: float = 0.0

    @classmethod
    def exact(cls, mean: float) -> Measure:
        """Return a measure without uncertainty."""
        return cls(mean=mean, low=mean, high=mean)

    @classmethod
    def within(cls, mean: float, share: float) -> Measure:
        """Return a measure that may be off by a share of it on either side."""
        return cls(mean=mean, low=mean * (1 - share), high=mean * (1 + share))


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
