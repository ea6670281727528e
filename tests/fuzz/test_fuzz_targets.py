"""Each reader of bytes from outside takes damaged inputs: it reads them, or refuses them.

`make fuzz` searches for five minutes each, guided by branches (run_fuzzer.py); here are some
thousand mutations of the same seeds, the same in each run. A finding becomes a file of corpora/.
"""

from __future__ import annotations

import random
import resource

import pytest
from fuzz_targets import TARGETS

from mutations import mutated  # isort: skip (fuzz_targets makes it importable)

#: Inputs of a run; those of the endpoint are connections.
COUNT, CONNECTIONS = 200, 40
#: CPU seconds that one input may take.
SECONDS = 5


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())
    target.read(seeds[0])  # it imports what it needs
    coin = random.Random(name)
    count = CONNECTIONS if name == "endpoint_http" else COUNT
    for data in [*seeds, *(mutated(coin, coin.choice(seeds), seeds) for _ in range(count))]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        try:
            target.read(data)
        except Exception as error:
            error.add_note(f"input: {data[:2_000]!r}") if hasattr(error, "add_note") else None
            raise
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < SECONDS, data[:2_000]
