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
    r"of NVIDIA \w+|between ranks|of a worker for a batch|batches ahead|Gbit/s|vCPUs|workers"
    r"|GB|(?<= )s\b"
)


def value(formula: str) -> float:
    """Compute a formula, of which only units are no arithmetic."""
    expression = ast.parse(_WORD.sub("", formula).replace(" x ", " * "), mode="eval")
    return float(eval(compile(expression, formula, "eval"), {"__builtins__": {}}))


def test_each_formula_gives_its_number() -> None:
    seen = Counter[Bottleneck]()
    for seed in range(20):
        workload, types = made_up(seed)
        workload = replace(workload, bytes_per_worker=workload.bytes_per_worker * (1 + seed % 3))
        for candidate in list(candidates(workload, {"us-east-1": types}, (1, 3)))[::7]:
            step = candidate.step
            assert set(step.formulas) == set(step.seconds_by_resource)
            for resource, formula in step.formulas.items():
                needed = step.seconds_by_resource[resource]
                if "not counted" in formula:
                    assert needed == 0
                    continue
                # The share is rounded to four digits, and may be near 1.
                allowed = pytest.approx(needed, rel=5e-3, abs=1e-4 * step.expected)
                assert value(formula) == allowed, (seed, formula)
                seen[resource] += needed > 0
    assert set(seen) == set(Bottleneck)
    assert min(seen.values()) > 10
