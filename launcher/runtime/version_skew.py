"""Version skew between the hosts that prepare data and those that train.

Batches are the same bytes wherever they are prepared only if the packages that prepare them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from launcher.runtime.event_log import emit
from launcher.shared import Role


@dataclass
class VersionSkew:
    """The leader's comparison: each difference between preparing and training hosts, once.

    groups: the group of each host. roles: the role of each group.
    """

    groups: Mapping[str, str]
    roles: Mapping[str, Role]
    _reports: dict[str, dict[str, str]] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)

    def record(self, host: str, versions: Mapping[str, str]) -> None:
        """Record a host's versions; emit an event for each package that newly differs."""
        self._reports[host] = dict(versions)
        for package, by_group in self._differences(host):
            emit(
                "versions_differ",
                package=package,
                by_group=by_group,
                why="batches may differ from those that the training hosts would prepare",
            )

    def _differences(self, host: str) -> Iterator[tuple[str, dict[str, str]]]:
        group = self.groups[host]
        for other, versions in self._reports.items():
            peer = self.groups[other]
            if self.roles[peer] is self.roles[group]:
                continue
            for package in self._reports[host].keys() & versions.keys():
                pair = {group: self._reports[host][package], peer: versions[package]}
                key = (package, "/".join(sorted(pair)))
                if len(set(pair.values())) > 1 and key not in self._reported:
                    self._reported.add(key)
                    yield package, pair
