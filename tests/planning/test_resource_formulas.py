"""`launcher plan --explain`: each formula, computed from its text, gives its number."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace

import pytest
from test_recommendation import made_up

from launcher.client.planning import Bottleneck, candidates

_WORD = re.compile(
    r"of NVIDIA \w+|between hosts|of a worker for a batch|batches ahead|Gbit/s|vCPUs|workers"
    r"|GB|(?<= )s\b"
)


def value(formula: str) -> float:
    """Compute a formula, of which only units are no arithmetic."""
    expression = ast.parse(_WORD.sub("", formula).replace(" x ", " * "), mode="eval")
    return float(eval(compile(expression, formula, "eval"), {"__builtins__": {}}))


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 80, 20)])
def test_each_formula_gives_its_number(seeds: range) -> None:
    seen = Counter[Bottleneck]()
    for seed in seeds:
        workload, types = made_up(seed)
        workload = replace(workload, bytes_per_worker=workload.bytes_per_worker * (1 + seed % 3))
        for candidate in list(candidates(workload, {"us-east-1": types}, (1, 3)))[::7]:
            computed = candidate.step.formulas
            assert set(computed) == set(candidate.step.seconds_by_resource)
            for resource, needed in candidate.step.seconds_by_resource.items():
                if "not counted" in computed[resource]:
                    assert needed == 0
                    continue
                # The share is rounded to four digits, and may be near 1.
                allowed = pytest.approx(needed, rel=5e-3, abs=1e-4 * candidate.step.expected)
                assert value(computed[resource]) == allowed, (seed, computed[resource])
                seen[resource] += needed > 0
    assert set(seen) == set(Bottleneck)
    assert min(seen.values()) > 10
