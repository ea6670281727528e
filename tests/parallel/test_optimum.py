"""Cuts that are found are the best of all, or as near to them as they say."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import pytest

pytest.importorskip("torch")

from launcher.errors import ParallelError
from launcher.parallel.partitioning import (
    Chain,
    CutProblem,
    Cuts,
    PartitionQuestion,
    best,
    decide,
    fastest,
    search,
)
from launcher.parallel.profiling import Profile, ProfileKind
from launcher.shared import (
    ActionKind,
    Fingerprint,
    Joint,
    Link,
    ModuleCost,
    Objective,
    Orders,
    PartitionFile,
    Schedule,
    StageSeconds,
    Tie,
    play,
    predict_stages,
    simulate,
)

Ends = list[tuple[int, int]]
_FINGERPRINT = Fingerprint(parameters={}, calls=(), example=(), torch="")


# Chains and questions ---------------------------------------------------------------------------


def drawn_modules(draw: random.Random, length: int) -> tuple[ModuleCost, ...]:
    """Giants, modules that cost nothing, and places where there is no cut."""

    def cost(scale: float) -> float:
        if draw.random() < 0.15:
            return 0
        giant = 20 if draw.random() < 0.05 else 1
        return round(scale * giant * draw.choice([1, 1, 2, draw.random()]), 3)

    return tuple(
        ModuleCost(
            name=f"layers.{number}",
            forward=cost(1),
            backward=cost(2),
            parameters=int(cost(100)),
            gradients=int(cost(100)),
            states=2 * int(cost(100)),
            kept=int(cost(100)),
            passing=int(cost(100)),
            crossing=None if number and draw.random() < 0.05 else int(cost(20)),
            returning=int(cost(20)),
        )
        for number in range(length)
    )


def drawn_joint(draw: random.Random, modules: tuple[ModuleCost, ...]) -> Joint:
    """A parameter that two modules have, or what goes from one to the other."""
    one, other = sorted(draw.sample(range(len(modules)), 2))
    if draw.random() < 0.5:
        return Joint(first=one, second=other, kept=draw.randint(0, 100))
    return Joint(first=one, second=other, held=-min(modules[one].held, modules[other].held) // 9)


def drawn_link(draw: random.Random) -> Link:
    return Link(latency=draw.choice([0, 0.1]), bandwidth=draw.choice([None, 20, 200]))


def drawn(draw: random.Random, longest: int) -> tuple[Chain, PartitionQuestion]:
    """A chain, with ties of two or three in some, and one stage on each of its ranks."""
    ranks, replicas = draw.choice([1, 2, 2, 3, 4, 5]), draw.choice([1, 1, 2, 4])
    schedule = draw.choice([Schedule.INTERLEAVED, Schedule.INTERLEAVED, Schedule.SIMPLE])
    modules = drawn_modules(draw, draw.randint(ranks, max(longest, ranks)))
    joints = [
        drawn_joint(draw, modules) for _ in range(draw.choice([0, 0, 2]) * (len(modules) > 1))
    ]
    ties = []
    for count in draw.choice([(), (), (2,), (3,), (2, 2)]):
        shared = tuple(sorted(draw.sample(range(len(modules)), min(count, len(modules)))))
        size = min(modules[each].gradients for each in shared)
        if len(shared) > 1 and size:
            ties.append(Tie(modules=shared, gradients=size, parameters=draw.randint(1, 3)))
            joints += [
                Joint(first=one, second=other, held=-4 * size)
                for one, other in itertools.pairwise(shared)
            ]
    fewest = 1 if schedule is Schedule.SIMPLE else ranks
    question = PartitionQuestion(
        partitions=ranks,
        microbatches=max(fewest, draw.choice([1, 2, 4, ranks, 2 * ranks + 1, 3 * ranks])),
        replicas=replicas,
        objective=draw.choice([Objective.SPEED, Objective.SPEED, Objective.MEMORY]),
        schedule=schedule,
        memory_cap=draw.choice([None, None, draw.randint(1000, 8000)]),
    )
    return Chain(modules, tuple(joints), drawn_link(draw), tuple(ties), replicas), question


def drawn_several(draw: random.Random) -> tuple[Chain, Orders, float]:
    """A chain, several stages on each rank or no bubble, and a memory cap."""
    ranks, virtual = draw.choice([(2, 2), (2, 3), (3, 2), (2, 1), (3, 1)])
    modules = drawn_modules(draw, draw.randint(ranks * virtual, 12))
    modules = tuple(replace(each, gradients=0) for each in modules)
    orders = Orders(
        schedule=Schedule.ZERO_BUBBLE if virtual == 1 else draw.choice(list(Schedule)[1:]),
        ranks=ranks,
        virtual_stages=virtual,
        microbatches=ranks * draw.choice([1, 2, 3]),
    )
    chain = Chain(modules, (drawn_joint(draw, modules),), drawn_link(draw))
    return chain, orders, draw.choice([inf, draw.randint(400, 6000)])


# Costs, worked out from the modules one by one --------------------------------------------------


def every(chain: Chain, orders: Orders, cap: float = inf) -> Iterator[Cuts]:
    """All cuts within the cap, with their simulated steps."""
    for places in itertools.combinations(range(1, len(chain)), orders.stages - 1):
        if all(chain.modules[place].crossing is not None for place in places):
            ends = ends_of(chain, places)
            memory = max(_memory(chain, orders, rank, ends) for rank in range(orders.ranks))
            if memory <= cap:
                yield Cuts(places=places, step=_step(chain, orders, ends), memory=memory)


def ends_of(chain: Chain, places: tuple[int, ...]) -> Ends:
    return list(zip((0, *places), (*places, len(chain)), strict=True))


def _over(chain: Chain, place: int) -> tuple[int, int]:
    """The bytes that cross a place, there and back."""
    if place in (0, len(chain)):
        return 0, 0
    return chain.modules[place].crossing or 0, chain.modules[place].returning or 0


def _timed(chain: Chain, first: int, last: int) -> StageSeconds:
    inside = chain.modules[first:last]
    places = [end for end in (first, last) if 0 < end < len(chain)]
    return StageSeconds(
        forward=sum(each.forward for each in inside),
        backward=sum(each.backward for each in inside),
        sending=sum(chain.link.seconds(*_over(chain, place)) for place in places),
    )


def _step(chain: Chain, orders: Orders, ends: Ends) -> float:
    """Passes are simulated; then tied gradients are added, and all averaged, rank by rank."""
    link, played = chain.link, simulate(orders, [_timed(chain, *stage) for stage in ends])
    done = [events[-1].end for events in played.events]
    sizes = [sum(each.gradients for each in chain.modules[a:b]) for a, b in ends]
    for tie in chain.ties:
        uses = [sum(a <= each < b for each in tie.modules) for a, b in ends]
        holders = [rank for rank, used in enumerate(uses) if used]
        for rank in holders:
            sizes[rank] -= (uses[rank] - 1) * tie.gradients
        if len(holders) > 1:
            # Each parameter takes two ring all-reduces: a count, and the gradient.
            rounds = 2 * (len(holders) - 1)
            end = max(done[rank] for rank in holders) + 2 * tie.parameters * rounds * link.latency
            end += rounds / len(holders) * tie.gradients / (link.bandwidth or inf)
            for rank in holders:
                done[rank] = end
    rounds = 2 * (chain.replicas - 1)
    for rank, size in enumerate(sizes):
        if size and rounds:
            done[rank] += 2 * rounds * link.latency
            done[rank] += rounds / chain.replicas * size / (link.bandwidth or inf)
    return max(done)


def _memory(chain: Chain, orders: Orders, rank: int, ends: Ends) -> int:
    """The most of a rank, action by action."""
    always, kept, passing = 0, {}, []
    for stage in range(rank, orders.stages, orders.ranks):
        first, last = ends[stage]
        inside = chain.modules[first:last]
        joined = [each for each in chain.joints if first <= each.first and each.second < last]
        always += sum(each.held for each in (*inside, *joined))
        always += orders.microbatches * (_over(chain, first)[0] + _over(chain, last)[1])
        kept[stage] = sum(each.kept for each in (*inside, *joined)) + _over(chain, last)[0]
        passing.append(max(each.passing for each in inside))
    now = most = 0
    for kind, stage, _ in orders.actions[rank]:
        if kind is ActionKind.FORWARD:
            now += kept[stage]
        elif kind is not ActionKind.INPUT:
            now -= kept[stage]
        most = max(most, now)
    return always + most + max(passing)


def formula(chain: Chain, question: PartitionQuestion, places: tuple[int, ...]) -> float:
    """The sum of all stages, and (m - 1) times the slowest pass, or the slowest of each way."""
    stages = [_timed(chain, *stage) for stage in ends_of(chain, places)]
    there = [each.forward + each.sending / 2 for each in stages]
    back = [each.backward + each.sending / 2 for each in stages]
    slowest = max(there) + max(back)
    if question.schedule is not Schedule.SIMPLE:
        slowest = max(a + b for a, b in zip(there, back, strict=True))
    return sum(there) + sum(back) + (question.microbatches - 1) * slowest


# One stage on each rank -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A chain, a question, and all cuts that are possible."""

    chain: Chain
    question: PartitionQuestion
    possible: list[Cuts]

    @property
    def optimum(self) -> Cuts:
        if self.question.objective is Objective.SPEED:
            return min(self.possible, key=lambda each: each.step)
        return min(self.possible, key=lambda each: (each.memory, each.step))

    @property
    def problem(self) -> CutProblem:
        is_speed = self.question.objective is Objective.SPEED
        return CutProblem(
            chain=self.chain,
            partitions=self.question.partitions,
            microbatches=self.question.microbatches,
            schedule=self.question.schedule,
            cap=self.question.cap if is_speed else self.optimum.memory,
        )


def file_of(chain: Chain, question: PartitionQuestion) -> PartitionFile:
    profile = Profile(
        kind=ProfileKind.MEASURED,
        device="",
        runs=1,
        modules=chain.modules,
        joints=chain.joints,
        ties=chain.ties,
    )
    decided = decide([profile], _FINGERPRINT, chain.link, question)
    return PartitionFile.from_json(decided.to_json())  # which checks what is in it


def check_formula(asked: Asked) -> None:
    """No other cuts have a shorter step by the formula, or less memory."""
    found = best(asked.problem, asked.question.objective)
    by_places = {each.places: each for each in asked.possible}
    assert found.memory == by_places[found.places].memory
    assert found.step == pytest.approx(formula(asked.chain, asked.question, found.places))
    if asked.question.objective is Objective.MEMORY:
        assert found.memory == asked.optimum.memory
    among = [each for each in asked.possible if each.memory <= asked.problem.cap]
    least = min(formula(asked.chain, asked.question, each.places) for each in among)
    assert found.step == pytest.approx(least, rel=1e-12)


def check_found(asked: Asked, effort: int = 10**8) -> bool:
    """Whether the cuts that are found are proven; then they are the best, else near enough."""
    near, optimum = best(asked.problem, asked.question.objective).places, asked.optimum
    orders, cap = asked.question.orders, asked.problem.cap
    found = fastest(asked.chain, orders, near, cap=cap, effort=effort)
    assert found.bound <= optimum.step * (1 + 1e-9)
    assert optimum.step <= found.step * (1 + 1e-9)
    assert found.step <= optimum.step * (1 + found.gap) * (1 + 1e-9)
    if found.gap == 0:
        assert found.step == pytest.approx(optimum.step, rel=1e-9)
    return found.gap == 0


def check_file(asked: Asked) -> None:
    """The file has the best cuts, with a proof."""
    found = file_of(asked.chain, asked.question)
    (same,) = [each for each in asked.possible if each.places == found.places]
    assert found.step == pytest.approx(same.step)
    assert (found.gap, found.memory_gap) == (0, 0)
    assert found.bound == pytest.approx(found.step)
    assert found.step == pytest.approx(asked.optimum.step, rel=1e-9)
    assert max(each.memory for each in found.stages) == same.memory
    if asked.question.objective is Objective.MEMORY:
        assert same.memory == asked.optimum.memory


@pytest.mark.parametrize(
    ("count", "longest"),
    [
        (60, 7),
        pytest.param(1000, 7, marks=pytest.mark.long),
        pytest.param(2000, 11, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_no_other_cuts_have_a_shorter_step(count: int, longest: int) -> None:
    """Found by trying all, and for one in ten chains also without, and in a partition file."""
    draw, refused, proven = random.Random(count), 0, []
    for number in range(count):
        chain, question = drawn(draw, longest)
        possible = list(every(chain, question.orders, question.cap))
        asked = Asked(chain=chain, question=question, possible=possible)
        if not possible:
            refused += 1
            if number % 10 == 0:
                with pytest.raises(ParallelError):
                    file_of(chain, question)
            continue
        check_formula(asked)
        assert check_found(asked)
        if number % 10 == 0:
            check_file(asked)
            proven.append(check_found(asked, effort=5_000))
    print(f"{count} chains, {refused} refused; {sum(proven)} of {len(proven)} proven in a hurry")
    assert 0 < refused < count / 2
    assert sum(proven) > len(proven) / 2


# Several stages on each rank --------------------------------------------------------------------


def above_the_best(
    chain: Chain, orders: Orders, cap: float, objective: Objective
) -> tuple[float, float] | None:
    """How far a search without and with all cuts tried is above the best; None: nothing fits."""
    possible = {each.places: each for each in every(chain, orders, cap)}
    if not possible:
        with pytest.raises(ParallelError):
            search(chain, orders, objective, cap=cap)
        return None
    is_speed = objective is Objective.SPEED
    least = min(
        possible.values(), key=lambda each: each.step if is_speed else (each.memory, each.step)
    )
    shares = []
    for effort in (0, 10**8):
        found = search(chain, orders, objective, cap=cap, effort=effort)
        same = possible[found.places]
        assert (found.step, found.memory) == pytest.approx((same.step, same.memory))
        if found.memory <= least.memory or is_speed:
            assert found.bound <= least.step * (1 + 1e-9)
        if not is_speed:
            assert found.memory_bound is not None
            assert found.memory_bound <= least.memory * (1 + 1e-9)
            assert found.memory <= least.memory * (1 + found.memory_gap) * (1 + 1e-9)
        pair = (least.step, found.step)
        if not is_speed and found.memory > least.memory:
            pair = (least.memory, found.memory)
        shares.append(pair[1] / pair[0] - 1 if pair[0] else 0.0)
    assert (found.gap, found.memory_gap) == (0, 0)
    return shares[0], shares[1]


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(30, marks=pytest.mark.long),
        pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
def test_cuts_into_several_stages_on_each_rank_are_the_best_of_all(
    objective: Objective, count: int
) -> None:
    """As a rule without trying them all, and always with that."""
    draw = random.Random(count)
    asked = [drawn_several(draw) for _ in range(count)]
    pairs = [pair for each in asked if (pair := above_the_best(*each, objective))]
    hurried, tried = (sorted(shares) for shares in zip(*pairs, strict=True))
    print(
        f"{objective.value}: {len(pairs)} chains, above the best: median "
        f"{statistics.median(hurried):.2%}, {sum(each > 1e-9 for each in hurried)} at all, worst "
        f"{hurried[-1]:.2%}; with all cuts tried: worst {tried[-1]:.2%}"
    )
    assert count / 2 < len(pairs) < count  # some have no cuts that fit, and are refused
    assert tried[-1] < 1e-9
    assert statistics.median(hurried) < 1e-9
    assert hurried[-1] <= 0.03


@pytest.mark.parametrize(
    ("schedule", "virtual"), [("interleaved", 2), ("zero_bubble", 1), ("zero_bubble", 2)]
)
def test_several_stages_of_a_rank_exchange_gradients_too(schedule: str, virtual: int) -> None:
    draw, tied = random.Random(virtual), 0
    for _ in range(20):
        chain, _ = drawn(draw, 8)
        question = PartitionQuestion(
            partitions=2,
            microbatches=4,
            replicas=chain.replicas,
            schedule=Schedule(schedule),
            virtual_stages=virtual,
        )
        steps = [
            play(chain, question.orders, each, predict_stages(chain, question.orders, each)).seconds
            for each in itertools.combinations(range(1, len(chain)), 2 * virtual - 1)
            if all(chain.modules[place].crossing is not None for place in each)
        ]
        if steps:
            assert file_of(chain, question).step == pytest.approx(min(steps), rel=1e-9)
            tied += bool(chain.ties)
    assert tied > 3


# What the best cuts are like ---------------------------------------------------------------------


def even(count: int, **costs: int) -> Chain:
    modules = (
        ModuleCost(name=f"{n}", forward=1, backward=2, crossing=0, returning=0, **costs)
        for n in range(count)
    )
    return Chain(tuple(modules))


def four(schedule: Schedule = Schedule.INTERLEAVED) -> Orders:
    """Two ranks with two stages each."""
    return Orders(schedule=schedule, ranks=2, virtual_stages=2, microbatches=4)


def sizes_of(chain: Chain, cuts: Cuts) -> list[int]:
    return [b - a for a, b in chain.stages(cuts.places)]


def test_early_stages_hold_more_microbatches_and_get_fewer_modules() -> None:
    problem = CutProblem(chain=even(12, kept=100), partitions=3, microbatches=6)
    sizes = sizes_of(problem.chain, best(problem, Objective.MEMORY))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert sizes_of(problem.chain, best(problem, Objective.SPEED)) == [4, 4, 4]


def test_a_giant_is_with_a_small_stage_on_its_rank() -> None:
    """The rank of stages 0 and 2 has the giant of the first, and so little of the third."""
    giant = ModuleCost(name="giant", forward=4, backward=8)
    chain = Chain((giant, *even(12).modules[1:]))
    first, second, third, last = sizes_of(chain, search(chain, four(), Objective.SPEED))
    assert first + third < second + last


@pytest.mark.parametrize("schedule", [Schedule.INTERLEAVED, Schedule.ZERO_BUBBLE])
def test_the_step_is_close_above_the_bound_where_there_are_many_modules(schedule: Schedule) -> None:
    chain, orders = even(200), four(schedule)
    found = search(chain, orders, Objective.SPEED, effort=0)
    equal = [_timed(chain, 50 * each, 50 * (each + 1)) for each in range(4)]
    assert found.bound < found.step <= simulate(orders, equal).seconds
    assert found.gap < 0.05


def test_a_long_chain_is_proven_or_has_an_honest_gap() -> None:
    """An effort that is too small for a proof leaves a gap, which a larger one closes."""
    question, draw = PartitionQuestion(partitions=3, microbatches=6), random.Random(40)
    seconds = [draw.uniform(1, 2) for _ in range(40)]
    modules = (
        replace(module, forward=each, backward=2 * each, gradients=10)
        for module, each in zip(even(40).modules, seconds, strict=True)
    )
    chain = Chain(tuple(modules), link=Link(bandwidth=1.0))
    small, large = (
        fastest(chain, question.orders, (13, 26), effort=effort) for effort in (1, 50_000)
    )
    assert large.gap == 0
    assert 0 < small.gap < 0.5
    assert small.bound < large.step <= small.step <= large.step * (1 + small.gap)


def test_tied_weights_that_are_dear_to_add_stay_together() -> None:
    question = PartitionQuestion(partitions=2, microbatches=4)
    starts = []
    for size in (1, 1000):
        ties = (Tie(modules=(1, 2), gradients=size),)
        chain = Chain(even(4, gradients=1000).modules, link=Link(bandwidth=100.0), ties=ties)
        starts.append(file_of(chain, question).starts)
    assert starts[0] == ("2",)
    assert starts[1] != ("2",)


def test_replicas_move_parameters_away_from_the_rank_that_ends_last() -> None:
    """The first rank's last pass ends the step, so that it gets less to average afterwards."""
    question = PartitionQuestion(partitions=2, microbatches=4)
    modules = list(even(5, gradients=10).modules)
    modules[2] = replace(modules[2], gradients=210)
    chain = Chain(tuple(modules), link=Link(bandwidth=10.0))
    alone = file_of(chain, question)
    many = file_of(replace(chain, replicas=4), replace(question, replicas=4))
    assert alone.stages[0].exchange == 0
    assert many.starts == ("2",)
    assert many.step > alone.step
    first, second = many.stages
    assert first.exchange == pytest.approx(2 * 3 / 4 * 20 / 10)
    assert second.exchange == pytest.approx(2 * 3 / 4 * 230 / 10)
    assert many.timeline.exchanges[1][-1].partners == "replicas"


# What cannot be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chain", "partitions", "cap", "words"),
    [
        (
            even(8, parameters=100),
            2,
            250,
            "2 stages need at least 400 bytes per rank, but the cap is 250: use 4$",
        ),
        (even(8, parameters=100), 2, 50, "no number of stages is enough: recompute, or shard"),
        (even(2), 3, inf, "2 modules cannot be cut into 3 stages: use 2 or fewer"),
        (
            Chain(tuple(ModuleCost(name=n, forward=1, backward=1) for n in "ab")),
            2,
            inf,
            "the model cannot be cut into 2 stages, since it has fewer than 1 places",
        ),
    ],
    ids=["cap", "no number", "few modules", "no cuts"],
)
def test_what_cannot_be_is_refused(chain: Chain, partitions: int, cap: float, words: str) -> None:
    problem = CutProblem(chain=chain, partitions=partitions, microbatches=4, cap=cap)
    with pytest.raises(ParallelError, match=words):
        best(problem, Objective.SPEED)


@pytest.mark.long
@pytest.mark.parametrize("effort", [0, 10**8], ids=["hurried", "tried"])
def test_a_cap_that_nothing_fits_names_the_fewest_ranks_that_would_do(effort: int) -> None:
    for cap, words in (
        (500, r"2 ranks .* at least 800 bytes per rank, but the cap is 500: use 4"),
        (50, "no number of ranks is enough: recompute, or shard"),
    ):
        with pytest.raises(ParallelError, match=words):
            search(even(16, parameters=100), four(), Objective.SPEED, cap=cap, effort=effort)


def test_more_stages_than_modules_are_refused() -> None:
    words = r"cannot be cut into 4 stages .* since it has 2 places"
    with pytest.raises(ParallelError, match=words):
        search(even(3), four(), Objective.SPEED)
