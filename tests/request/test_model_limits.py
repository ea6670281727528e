"""Every min, max, pattern, enum and required field of the model, from both sides."""

from __future__ import annotations

import time

import pytest
from botocore.validate import ParamValidator
from model_mutants import pairs

from launcher.client.request import compiled, find_violations_of, input_shape
from launcher.errors import dotted

PAIRS = tuple(pairs())


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_limit_has_two_sides(pair):
    shape = input_shape()
    assert list(find_violations_of(shape, pair.kept)) == []
    broken = find_violations_of(shape, pair.broken)
    told = {(dotted(f.path), f.is_warning) for f in broken if pair.says in f.aws_message}
    assert told == {(pair.path, pair.is_warning)}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_boto_agrees_as_far_as_it_looks(pair):
    """It looks at required fields and at minima."""
    judge = ParamValidator()
    assert not judge.validate(pair.kept, input_shape()).has_errors()
    if pair.name.endswith((" min", " required")):
        assert judge.validate(pair.broken, input_shape()).has_errors()


def constrained(shape, path=()):
    """(place, kind of limit), found apart from the pairs."""
    kinds = [kind for kind in ("max", "pattern", "enum") if shape.metadata.get(kind) is not None]
    yield from ((path, kind) for kind in kinds)
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            yield from constrained(member, (*path, name))
    elif shape.type_name == "list":
        yield from constrained(shape.member, (*path, "[]"))
    elif shape.type_name == "map":
        yield from constrained(shape.key, (*path, "{}"))
        yield from constrained(shape.value, (*path, "{}"))


def test_no_limit_is_left_out():
    kinds = [kind for _, kind in constrained(input_shape())]
    made = [pair.name.split()[-1] for pair in PAIRS]
    free = 1  # the values of Environment, whose pattern allows everything
    for kind in ("max", "enum"):
        assert made.count(kind) == kinds.count(kind)
    assert made.count("pattern") == kinds.count("pattern") - free


PATTERNS = sorted({pair.says.split(": ", 1)[1] for pair in PAIRS if pair.name.endswith(" pattern")})


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_can_be_read(pattern):
    assert compiled(pattern)


def test_a_long_value_is_judged_in_no_time():
    """No pattern of the model runs wild, whatever it is held against."""
    start = time.process_time()
    for pattern in map(compiled, PATTERNS):
        for character in "a-/:.\u00e9":
            assert not pattern.fullmatch(character * 5000 + "\n")
    assert time.process_time() - start < 30  # a guard: 2**5000 steps would never end
