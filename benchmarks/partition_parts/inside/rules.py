"""How others cut a model who do not measure it. Places are numbers of a chain's modules.

Layers are what stands in a model side by side, as its author wrote them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise

from launcher.parallel.partitioning import Chain

Places = tuple[int, ...]


def by_count(chain: Chain, stages: int) -> Places:
    """The same number of modules in each stage, and one more in the first ones."""
    return _dealt(list(range(len(chain))), stages)


def by_parameters(chain: Chain, layers: Sequence[int], stages: int) -> Places:
    """DeepSpeed's "parameters": contiguous layers, with the least between the most parameters of a
    stage and the fewest.
    """
    sums = (0, *accumulate(each.parameters for each in chain.modules))

    def apart(places: Places) -> int:
        sizes = [sums[b] - sums[a] for a, b in pairwise((0, *places, len(chain)))]
        return max(sizes) - min(sizes)

    return min(combinations(layers[1:], stages - 1), key=apart)


def by_layers(layers: Sequence[int], stages: int) -> Places:
    """torchtitan's: layers are dealt evenly, and embedding and head count as one each, so that the
    first stage and the last have one layer fewer.
    """
    return _dealt(layers, stages)


def layers(chain: Chain) -> list[int]:
    """The first module of each."""
    owners = [_layer(each.name) for each in chain.modules]
    return [number for number, owner in enumerate(owners) if owner not in owners[:number]]


def _layer(name: str) -> tuple[str, ...]:
    """The part of a name that says the layer: "3" of a Sequential's, "down.1" of a list's."""
    first, *rest = name.split(".")
    return (first, *(part for part in rest[:1] if not first.isdigit() and part.isdigit()))


def _dealt(starts: Sequence[int], stages: int) -> Places:
    each, more = divmod(len(starts), stages)
    firsts = accumulate(each + (stage < more) for stage in range(stages - 1))
    return tuple(starts[first] for first in firsts)
