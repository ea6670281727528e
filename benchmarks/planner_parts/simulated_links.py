"""Links that transfers share fairly, as TCP flows do, in simulated time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

#: Bytes per second of one TCP flow between EC2 instances: 5 Gbit/s.
FLOW_RATE = 5e9 / 8
_DONE = 1e-3  # bytes
#: Bytes per second of a link without a limit.
_FASTEST = 1e12


class Clock:
    """Simulated time, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later; of things at one time, the first that was asked for comes first."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        while not is_over():
            self.now, _, action = heapq.heappop(self._events)
            action()


@dataclass(eq=False)
class _Transfer:
    """links: numbers of its two links. limit: bytes per second of its own flows."""

    left: float
    links: tuple[int, int]
    limit: float
    done: Callable[[], None]
    rate: float = 0.0


class Links:
    """Links by name, with bytes per second; transfers get max-min fair shares of them."""

    def __init__(self, clock: Clock, rates: Mapping[str, float]) -> None:
        self._clock = clock
        self._numbers = {name: number for number, name in enumerate(rates)}
        self._rates = np.minimum(np.array(list(rates.values())), _FASTEST)
        self._transfers: list[_Transfer] = []
        self._changed_at = 0.0
        self._version = 0

    def transfer(
        self, count: float, ends: Iterable[str], limit: float, done: Callable[[], None]
    ) -> None:
        """Send bytes over the links of both ends, and call `done` when all have arrived."""
        first, last = (self._numbers[end] for end in ends)
        self._advance()
        size, limit = max(count, 2 * _DONE), min(limit, _FASTEST)
        self._transfers.append(_Transfer(size, (first, last), limit, done))
        self._share()

    def _advance(self) -> None:
        seconds, self._changed_at = self._clock.now - self._changed_at, self._clock.now
        for each in self._transfers:
            each.left -= each.rate * seconds

    def _share(self) -> None:
        """Set all rates, and wait for the transfer that ends first."""
        self._version += 1
        if not self._transfers:
            return
        for each, rate in zip(self._transfers, self._fair_rates(), strict=True):
            each.rate = float(rate)
        first = min(each.left / each.rate for each in self._transfers)
        version = self._version
        self._clock.after(max(0.0, first), lambda: self._end(version))

    def _end(self, version: int) -> None:
        if version != self._version:
            return  # other transfers have begun or ended since
        self._advance()
        # A transfer that would take less time than the clock can count is over, too.
        tick = 1e-12 * max(1.0, self._clock.now)
        over = [each for each in self._transfers if each.left <= _DONE + each.rate * tick]
        self._transfers = [each for each in self._transfers if each not in over]
        self._share()
        for each in over:
            each.done()

    def _fair_rates(self) -> np.ndarray:
        """Raise all rates together; those stop that meet their limit or a full link."""
        links = np.array([each.links for each in self._transfers])
        limits = np.array([each.limit for each in self._transfers])
        rates = np.zeros(len(limits))
        wanted = np.bincount(links.ravel(), np.repeat(limits, 2), minlength=len(self._rates))
        if (wanted <= self._rates).all():
            return limits  # no link is full
        free, spare = np.ones(len(limits), bool), self._rates.astype(float)
        while free.any():
            users = np.bincount(links[free].ravel(), minlength=len(spare))
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(users > 0, spare / users, np.inf)
            possible = np.minimum(room[links].min(axis=1), limits)
            least = possible[free].min()
            stopped = free & (possible <= least * (1 + 1e-9))
            rates[stopped] = possible[stopped]
            np.subtract.at(spare, links[stopped].ravel(), np.repeat(rates[stopped], 2))
            spare = np.maximum(spare, 0.0)
            free &= ~stopped
        return rates
