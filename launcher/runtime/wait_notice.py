"""Names the hosts that a job of script groups still waits for once its leading group has ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from launcher.runtime.cluster import Group, in_numeric_order
from launcher.runtime.environment import Environment
from launcher.shared import Launch, Role

#: Seconds between two notices.
_NOTICE_INTERVAL = 600.0
#: Seconds until the first one: hosts that end together never do so at the same moment.
_FIRST_NOTICE_AFTER = 2.0


class WaitNotice:
    """Decides when waiting hosts are named. Pure: time is passed in.

    Hosts wait for others once the leading group has ended well; where no distribution is limited
    to a group, once any script group has.
    """

    def __init__(self, environment: Environment, interval: float | None = None) -> None:
        cluster, document = environment.cluster, environment.document
        self._interval = _NOTICE_INTERVAL if interval is None else interval
        self._awaited = environment.awaited_hosts
        scripts = [group for group in cluster.groups if group.role is Role.SCRIPT]
        leads = cluster.train_group.role is Role.TRAIN or document.trainer.launch != Launch.PYTHON
        ends = [cluster.train_group] if leads else scripts
        self._ends = [(group.name, self._ending(group)) for group in ends if scripts]
        self._groups = cluster.groups
        self._prices = {name: part.dollars_per_hour for name, part in document.scripts.items()}
        self._since: float | None = None
        self._next = 0.0

    def _ending(self, group: Group) -> frozenset[str]:
        """Return the hosts whose end is their group's: of parameter servers, the chief alone."""
        hosts = frozenset(group.hosts)
        return hosts & self._awaited or hosts

    def due(self, done: Collection[str], now: float) -> Iterator[dict[str, object]]:
        """Yield the fields of an event for each group with hosts that are waited for now."""
        ended = next((name for name, hosts in self._ends if hosts <= set(done)), None)
        if ended is None or self._awaited <= set(done):
            return
        if self._since is None:
            self._since, self._next = now, now + min(_FIRST_NOTICE_AFTER, self._interval)
        if now < self._next:
            return
        self._next = now + self._interval
        for group in self._groups:
            hosts = in_numeric_order(set(group.hosts) & self._awaited - set(done))
            if hosts:
                price = self._prices.get(group.name)
                yield {
                    "waits_for": ",".join(hosts),
                    "in_group": group.name,
                    "instance_type": group.instance_type,
                    "ended_group": ended,
                    "minutes": round((now - self._since) / 60),
                    **({} if price is None else {"dollars_per_hour": round(price * len(hosts), 2)}),
                }
