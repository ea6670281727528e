"""Scripts for smp learn in a pipeline what one process learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ranks import noted, run

from launcher.shared import PartitionFile

pytest.importorskip("torch")

_TESTS = Path(__file__).parent
_PREAMBLE = """
import launcher.parallel.smp as smp

STEPS, CLIP, MANY = 5, 0.05, 2

def cost(output, factor):
    return output.sin().mean() * factor.mean()

def batches(architecture, count):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        found = architecture.arguments(generator)
        yield {k: v if k == "ids" else v.double() for k, v in found.items()}

def factor(number):
    return torch.full((4,), 1.0 + number / 7, dtype=torch.float64)

def worst(own, theirs):
    assert own.keys() == theirs.keys(), own.keys() ^ theirs.keys()
    return max(
        ((own[k].double() - theirs[k].double()).norm()
         / theirs[k].double().norm().clamp_min(1e-9)).item()
        for k in own
    )
"""

_AGAINST_ONE_PROCESS = """
smp.init(microbatches=MANY, **{config})
architecture = ARCHITECTURES[{name!r}]
replicas = smp.dp_size()
torch.manual_seed(3)
net = architecture.make().double()
alone = copy.deepcopy(net)
every = list(batches(architecture, STEPS * MANY * replicas))

randomness = Randomness(alone, cut(alone, (), every[0])[0].drawing, seed=3)
optimizer = torch.optim.AdamW(alone.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
losses, norms = [], []
for step in range(STEPS):
    optimizer.zero_grad()
    losses.append([])
    for number in range(MANY * replicas):
        at = step * MANY * replicas + number
        replica, microbatch = divmod(number, MANY)
        randomness.set_position(step=step, replica=replica, microbatch=microbatch)
        loss = cost(alone(**every[at]), factor(at))
        (loss / MANY / replicas).backward()
        losses[-1].append(loss.item())
    norms.append(torch.nn.utils.clip_grad_norm_(alone.parameters(), CLIP).item())
    optimizer.step()
    scheduler.step()
assert min(norms) > CLIP, norms
reference = optimizer

parameters = list(net.parameters())
optimizer = torch.optim.AdamW(parameters, lr=0.01)
model = smp.DistributedModel(net)
optimizer = smp.DistributedOptimizer(optimizer)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

@smp.step
def train_step(model, inputs, factor):
    first, *others = inputs.values()
    output = model(first, **dict(list(inputs.items())[1:]))
    loss = cost(output, factor)
    model.backward(loss)
    return {{"loss": loss, "output": output}}

told = []
model.train()
for step in range(STEPS):
    optimizer.zero_grad()
    first = step * MANY * replicas + smp.dp_rank() * MANY
    mine = every[first : first + MANY]
    inputs = {{key: torch.cat([each[key] for each in mine]) for key in mine[0]}}
    factors = torch.cat([factor(first + number) for number in range(MANY)])
    returned = train_step(model, inputs, factors)
    own_norm = model.clip_grad_norm_(CLIP).item()
    optimizer.step()
    scheduler.step()
    told += [abs(own_norm / norms[step] - 1)]
    at = smp.dp_rank() * MANY
    theirs = losses[step][at : at + MANY]
    told += [abs(a.item() / b - 1) for a, b in zip(returned["loss"], theirs)]

size = lambda each: each.untyped_storage().nbytes() // each.element_size()
states = optimizer.state_dict()
assert states["param_groups"] == reference.state_dict()["param_groups"]
flat = lambda found: {{
    f"{{n}}.{{k}}": v for n, each in found["state"].items() for k, v in each.items()
}}
note({{
    "model": worst(model.state_dict(), alone.state_dict()),
    "optimizer": worst(flat(states), flat(reference.state_dict())),
    "told": max(told),
    "shape": list(returned["output"].concat().shape),
    "own": sum(map(size, parameters)) / sum(p.numel() for p in alone.parameters()),
    "local": 0 <= sum(map(size, parameters)) - sum(map(size, model.local_parameters()))
        < len(parameters),
}})
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "config", "ranks"),
    [
        ("gpt, tied", "dict(partitions=2, starts=['blocks.2'])", 2),
        pytest.param(
            "gpt, tied",
            "dict(partitions=2, starts=['blocks.2'], schedule='simple')",
            2,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "dropout",
            "dict(config={'partitions': 2}, stages={'blocks.3': 1, 'norm': 1, 'head': 1})",
            4,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "encoder-decoder", "dict(partitions=2, starts=['embed'])", 2, marks=pytest.mark.slow
        ),
        pytest.param(
            "frozen and unused",
            "dict(config=dict(partitions=2, pipeline='simple'), starts=['layers.2'])",
            2,
            marks=pytest.mark.slow,
        ),
        pytest.param("dropout", "{}", 1, marks=pytest.mark.slow),
    ],
)
def test_a_script_learns_what_one_process_does(
    tmp_path: Path, name: str, config: str, ranks: int
) -> None:
    script = _PREAMBLE + _AGAINST_ONE_PROCESS.format(name=name, config=config)
    for found in noted(tmp_path, script, ranks=ranks):
        assert found["model"] <= 1e-10
        assert found["optimizer"] <= 1e-10
        assert found["told"] <= 1e-10
        assert found["shape"][0] in (8, 8 * 9)
        assert found["local"]
        assert found["own"] < 1 or ranks == 1


_MIXED = """
class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        def layer():
            kinds = (torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.3))
            return torch.nn.Sequential(*kinds)
        self.first = layer()
        with smp.partition(1):
            with smp.partition(0):
                self.second = layer()
            self.third = layer()
        self.fourth = layer()
        smp.set_partition(self.fourth, 1)
        self.unused = torch.nn.Linear(2, 2)
    def forward(self, x, scale):
        return self.fourth(self.third(self.second(self.first(x)))) * scale

smp.init({"partitions": 2, "microbatches": 2, "pipeline": "simple", "placement_strategy": "DPT",
          "auto_partition": False, "default_partition": 0, "optimize": "speed"})
torch.manual_seed(5)
net = Mixed().double()
alone = copy.deepcopy(net)
model = smp.DistributedModel(net, average_grads_across_microbatches=False)
optimizer = smp.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.05))

@smp.step(non_split_inputs=["factor"], input_split_axes={"x": 1})
def train_step(x, scale, factor):
    noise = torch.randn(4, 1, dtype=torch.float64)
    output = model(scale=scale, x=x.T + noise)
    loss = (output * noise).sum() * factor
    model.backward(loss)
    return loss, {"noise": noise, "said": "so"}

@smp.step
def test_step(x, scale):
    return model(x, scale)
"""

_TRAINS_AND_TESTS = """
theirs = torch.optim.Adam(alone.parameters(), lr=0.05)
scale = torch.linspace(1, 2, 8, dtype=torch.float64)[:, None]
factor = torch.tensor(0.25, dtype=torch.float64)
randomness = Randomness(
    alone, cut(alone, (), {"x": scale[:4].expand(4, 6), "scale": scale[:4]})[0].drawing, seed=5
)

def train_alone(step, batch, noises):
    alone.train()
    theirs.zero_grad()
    losses = []
    for microbatch, noise in enumerate(noises):
        randomness.set_position(step=step, replica=0, microbatch=microbatch)
        half = slice(4 * microbatch, 4 * microbatch + 4)
        loss = (alone(batch[half] + noise, scale[half]) * noise).sum() * factor
        loss.backward()
        losses.append(loss.item())
    theirs.step()
    return losses

def reload():
    parts = {"model": model.local_state_dict(), "optimizer": optimizer.local_state_dict()}
    smp.save(parts, os.environ["NOTES"] + ".part")
    wholes = model.state_dict(), optimizer.state_dict()
    for loads in (
        lambda: smp.load(os.environ["NOTES"] + ".part").values(),
        lambda: copy.deepcopy(wholes),
    ):
        found, states = loads()
        for value in (*model.local_parameters(), *model.local_buffers()):
            value.data.zero_()
        optimizer.optimizer.state.clear()
        model.load_state_dict(found)
        optimizer.load_state_dict(states)

told, expected = [], []
for step in range(4):
    batch = torch.randn(8, 6, dtype=torch.float64)
    model.train()
    optimizer.zero_grad()
    losses, others = train_step(batch.T, scale, factor)
    optimizer.step()
    assert others["said"] == "so"
    assert not torch.equal(*others["noise"])
    told.append([each.item() for each in losses])
    expected.append(train_alone(step, batch, others["noise"]))
    model.eval()
    alone.eval()
    longer = torch.randn(12, 6, dtype=torch.float64)  # another size than in training
    with torch.no_grad():
        found = test_step(longer, torch.ones(12, 1, dtype=torch.float64))
        told.append(found.concat().sum(dim=1).tolist())
        expected.append(alone(longer, 1.0).sum(dim=1).tolist())
    if step == 1:
        reload()
found = {
    "told": told,
    "expected": expected,
    "worst": worst(model.state_dict(), alone.state_dict()),
    "groups": [smp.get_mp_group(), smp.get_dp_group(), smp.allgather(smp.rank(), smp.MP_GROUP)],
    "places": [smp.rank(), smp.mp_rank(), smp.dp_rank(), smp.tp_size(), smp.local_size()],
}
"""


_REFUSED_BY_ALL = """
words = {}
def refused(name, call, *arguments):
    torch.manual_seed(0)
    try:
        call(*arguments)
    except ParallelError as error:
        words[name] = str(error)

def modelled(net):
    smp.smp_session.session().models.clear()
    global model
    model = smp.DistributedModel(net.double())

ones = torch.ones(8, 6, dtype=torch.float64)
thin = ones[:, :1]
model.eval()
refused("undivided", test_step, ones[:5], thin)
refused("flat", test_step, ones[0, 0], thin)
refused("array", test_step, ones.numpy(), thin)
refused("parameters", lambda: list(model.parameters()))
refused("moved", model.float)
refused("optimizer", smp.DistributedOptimizer, torch.optim.SGD(alone.parameters()))
refused("outside", model, ones, thin)
refused("backward", model.backward, ones.sum())
refused("second", smp.DistributedModel, alone)
refused("state", model.load_state_dict, {})

def backwards():
    net = Mixed()
    smp.set_partition(net.first, 1)
    smp.set_partition(net.second, 0)
    modelled(net)
    test_step(ones, thin)
refused("backwards", backwards)
refused("partition", smp.set_partition, alone, 2)

def uncut():
    modelled(ARCHITECTURES["encoder-decoder"].make())
    test_step(ones, ones[:, :4])
refused("uncut", uncut)

def unlike_models():
    net = Mixed()
    torch.nn.init.constant_(net.first[0].bias, smp.rank())
    modelled(net)
    test_step(ones, thin)
refused("models", unlike_models)

# The batch of a replica's first rank counts: the others may have another, or placeholders.
def tested(x):
    torch.manual_seed(0)
    modelled(Mixed())
    model.eval()
    return test_step(x, thin).reduce_mean().sum().item()
words["batches"] = [tested(ones), tested(ones if smp.rank() == 0 else torch.empty(8, 0))]

if smp.rank() == 0:
    smp.send({"sent": 1}, 1, smp.RankType.MP_RANK)
    smp.broadcast("all", smp.WORLD)
else:
    words["sent"] = smp.recv_from(0, smp.RankType.MP_RANK)
    words["all"] = smp.recv_from(0, smp.RankType.WORLD_RANK)
modelled(Mixed())
refused("unpartitioned", model.local_state_dict)
smp.mp_barrier()
note({**found, "words": words})
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What the two ranks of a script noted, which trains, tests, and then does what is refused."""
    script = _PREAMBLE + _MIXED + _TRAINS_AND_TESTS + _REFUSED_BY_ALL
    return noted(tmp_path_factory.mktemp("mixed"), script)


@pytest.mark.long
def test_training_continues_after_an_evaluation_of_another_size_and_a_reload(
    mixed: list[Any],
) -> None:
    for rank, found in enumerate(mixed):
        for told, expected in zip(found["told"], found["expected"], strict=True):
            assert told == pytest.approx(expected, rel=1e-9)
        assert found["worst"] <= 1e-10
        assert found["groups"] == [[0, 1], [rank], [0, 1]]
        assert found["places"] == [rank, rank, 0, 1, 2]


@pytest.mark.long
def test_what_all_ranks_see_is_refused_on_all(mixed: list[Any]) -> None:
    first, second = mixed[0]["words"], mixed[1]["words"]
    assert "no stages before the first step, which partitions it" in first["unpartitioned"]
    assert second.pop("sent") == {"sent": 1}
    assert second.pop("all") == "all"
    assert first == second
    assert (
        "x has 5 samples in axis 0, which is not divisible by 2 microbatches" in first["undivided"]
    )
    assert "x has the shape (), without an axis 0 of samples" in first["flat"]
    assert "x is a ndarray, which cannot be split into microbatches" in first["array"]
    assert "local_parameters() for those of this rank" in first["parameters"]
    assert "moved or converted after its first step: do it before" in first["moved"]
    assert "created after the first step" in first["optimizer"]
    assert "the model is called outside a step" in first["outside"]
    assert "the model is trained outside a step" in first["backward"]
    assert "this script has a smp.DistributedModel already" in first["second"]
    assert "the names in the state and in the model differ: ['first.0.bias'" in first["state"]
    assert "second.0 in stage 0 needs " in first["backwards"]
    assert "partition 2 does not exist: use 0 to 1" in first["partition"]
    assert "EncoderDecoder has no cuts for its 2 partitions" in first["uncut"]
    assert "have created different models: first.0.bias differs" in first["models"]
    assert first["batches"][0] == first["batches"][1]


_REFUSED_IN_A_STEP = """
words = {}
smp.init(microbatches=2)

def refused(name, step=None, *, train=True, options={}, given=(torch.ones(4, 6),), **decorated):
    smp.smp_session.session().models.clear()
    global model
    torch.manual_seed(0)
    try:
        model = smp.DistributedModel(ARCHITECTURES["mlp"].make(), **options)
        model.train(train)
        smp.step(step, **decorated)(*given)
    except ParallelError as error:
        words[name] = str(error)

def no_call(x):
    return x
refused("no call", no_call)

def no_backward(x):
    return model(x)
refused("no backward", no_backward)

def learns(x):
    loss = model(x).mean()
    model.backward(loss)
    return loss
refused("nothing", learns)
refused("eval", learns, train=False)
refused("named", learns, non_split_inputs=["y"])
refused("graphs", learns, detach_outputs=False)
refused("options", learns, options={"tracing": True})

def early(x):
    model.backward(x.sum())
refused("early", early)

def twice(x):
    model.backward(model(model(x)).mean())
refused("twice", twice)

def two_losses(x):
    output = model(x)
    model.backward(output.mean())
    model.backward(output.sum())
refused("two losses", two_losses)

def detached(x):
    model.backward(model(x).detach().mean().requires_grad_())
refused("detached", detached)

def vector(x):
    model.backward(model(x))
refused("vector", vector)

def number(x):
    model(3)
refused("number", number)

def learned_before(x):
    model(x * torch.nn.Parameter(torch.ones(6)))
refused("learned before", learned_before)

def mixed(x):
    with torch.autocast("cpu", torch.bfloat16):
        return model(x)
refused("mixed first", mixed, train=False)
words["dtype"] = str(smp.step(lambda x: model(x))(torch.ones(4, 6))[0].dtype)

def mixed_later(x):
    smp.step(lambda x: model(x))(x)
    smp.step(mixed)(x)
smp.smp_session.session().models.clear()
model = smp.DistributedModel(ARCHITECTURES["mlp"].make()).eval()
try:
    mixed_later(torch.ones(4, 6))
except ParallelError as error:
    words["mixed"] = str(error)


def differs(x, counts):
    return model(x), str(counts[0].item())
refused("differs", differs, train=False, given=(torch.ones(4, 6), torch.arange(4)))
refused("scaled", lambda x: smp.DistributedOptimizer(None, dynamic_scale=True))
try:
    smp.tensor_parallelism
except ParallelError as error:
    words["name"] = str(error)
words["hasattr"] = hasattr(smp, "tensor_parallelism") or hasattr(smp, "other")
note(words)
"""


@pytest.mark.long
def test_what_a_step_does_that_would_not_be_exact_is_refused(tmp_path: Path) -> None:
    (words,) = noted(tmp_path, _PREAMBLE + _REFUSED_IN_A_STEP, ranks=1)
    assert "no_call does not call the model" in words["no call"]
    assert "no_backward does not call model.backward in train mode" in words["no backward"]
    assert "nothing" not in words
    assert "learns calls model.backward in eval mode" in words["eval"]
    assert "learns has no argument 'y', which non_split_inputs or" in words["named"]
    assert "detach_outputs=False" in words["graphs"]
    assert "smp.DistributedModel does not support tracing: leave it out" in words["options"]
    assert "early calls model.backward before the model: swap them" in words["early"]
    assert "calls model.backward twice for a microbatch: add up" in words["two losses"]
    assert "calls the model twice for a microbatch" in words["twice"]
    assert "the loss of detached does not depend on the model's output" in words["detached"]
    assert "model.backward got a tensor of shape (2, 6): pass its mean" in words["vector"]
    assert "passes input to the model, a <class 'int'>" in words["number"]
    assert "passes input to the model, which requires a gradient" in words["learned before"]
    assert "mixed first" not in words
    assert words["dtype"] == "torch.bfloat16"
    assert "mixed calls the model in torch.autocast, but the first step did not" in words["mixed"]
    assert "differs returned '0' for one microbatch and ['2'] for others" in words["differs"]
    assert "DistributedOptimizer does not support dynamic_scale" in words["scaled"]
    assert "smp.tensor_parallelism is not supported: cut the model into more" in words["name"]
    assert not words["hasattr"]


_UNSAID = """
smp.init(partitions=2, microbatches=2)
torch.manual_seed(0)
model = smp.DistributedModel(ARCHITECTURES["mlp"].make())

@smp.step
def train_step(x):
    loss = model(x).square().mean()
    model.backward(loss)
    return loss

loss = train_step(torch.ones(4, 6)).reduce_mean()
note({"own": [name for name, _ in model.local_named_parameters()], "loss": loss.item()})
smp.barrier()
"""


@pytest.mark.long
def test_cuts_that_are_not_set_are_found(tmp_path: Path) -> None:
    first, second = noted(tmp_path, _PREAMBLE + _UNSAID, SM_OUTPUT_DATA_DIR=str(tmp_path))
    (start,) = PartitionFile.read(tmp_path / "partition.json").starts
    assert all(name < start for name in first["own"])
    assert all(name > start for name in second["own"])  # none if it is the last activation's
    assert len(first["own"]) + len(second["own"]) == 10
    assert first["loss"] == second["loss"] > 0


_ALIASED = """
class Aliased(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        self.again = self.layer
    def forward(self, x):
        return self.again(x)

smp.init(partitions=1, microbatches=2)
model = smp.DistributedModel(Aliased())

@smp.step
def train_step(x):
    model.backward(model(x).mean())

train_step(torch.ones(4, 6))
model.load_state_dict(model.local_state_dict())
note(list(model.state_dict()))
"""


@pytest.mark.long
def test_the_whole_state_has_all_names_of_a_module(tmp_path: Path) -> None:
    parts = [f"{module}.{part}" for module in ("layer", "again") for part in ("weight", "bias")]
    assert noted(tmp_path, _PREAMBLE + _ALIASED, ranks=1) == [parts]


_FROZEN = """
smp.init(partitions=1, microbatches=2)
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.5))
model = smp.DistributedModel(net)
model.train()
net[1].eval()

@smp.step
def train_step(x):
    model.backward(model(x).mean())

train_step(torch.ones(4, 6))
note([net[0].training, net[1].training])
"""


@pytest.mark.long
def test_a_layer_that_is_in_eval_mode_before_the_first_step_stays_so(tmp_path: Path) -> None:
    assert noted(tmp_path, _PREAMBLE + _FROZEN, ranks=1) == [[True, False]]


_FAILING_RANK = """
smp.init(partitions=2, microbatches=2, starts=["2"])
torch.manual_seed(0)
model = smp.DistributedModel(ARCHITECTURES["mlp"].make())

@smp.step
def train_step(x):
    loss = model(x).square().mean()
    model.backward(loss)
    return loss

train_step(torch.ones(4, 6))
if smp.rank() == RANK:
    raise ValueError("planted")
train_step(torch.ones(4, 6))
"""


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_raises_ends_while_others_wait_for_it(tmp_path: Path, rank: int) -> None:
    script = _PREAMBLE + _FAILING_RANK.replace("RANK", str(rank))
    outcome = run(tmp_path, script, patience=120)
    assert outcome.code == 1
    assert "ValueError: planted" in outcome.output


_ENDING = """
import atexit, time
began = []
atexit.register(lambda: note(time.monotonic() - began[0]))  # runs after what init registers
smp.init(partitions=2, microbatches=2, starts=["2"])
if STAYS and smp.rank() == 1:
    first = pathlib.Path(os.environ["NOTES"], "0")
    deadline = time.monotonic() + 120
    while not first.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
if not STAYS:
    smp.barrier()
began.append(time.monotonic())
"""


@pytest.mark.long
@pytest.mark.parametrize("stays", [True, False])
def test_a_rank_waits_five_seconds_for_those_that_go_on(tmp_path: Path, stays: bool) -> None:
    script = _PREAMBLE + _ENDING.replace("STAYS", str(stays))
    first, second = noted(tmp_path, script, patience=180)
    if stays:
        assert 5 <= first < 60  # the other one would have gone on for 120
    else:
        assert max(first, second) < 5


_OTHER_ARGUMENTS = """
smp.init(microbatches=MANY, partitions=2, starts=["2"])
def made():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
alone, model = made(), smp.DistributedModel(made())

@smp.step
def train(x, scale):
    loss = (model(x) * scale).square().mean()
    model.backward(loss)
    return loss

off = []
for x, scale in GIVEN:
    apart = CHANGED * (len(off) if IS_LATER else 1)
    found = train(x, scale + apart * smp.pp_rank())
    wanted = (alone(x) * scale).square().mean()
    off.append(abs(found.reduce_mean().item() - wanted.item()))
note(off)
"""


@pytest.mark.parametrize(
    ("given", "is_later"),
    [
        pytest.param("(torch.ones(4, 6), torch.ones(4, 1))", True, id="later"),
        pytest.param("(torch.ones(4, 6), 2.0)", False, id="number"),
        pytest.param("(torch.ones(4, 6), torch.ones(4, 50000))", False, id="large"),
    ],
)
def test_arguments_that_ranks_do_not_share_are_those_of_the_first(
    tmp_path: Path, given: str, is_later: bool
) -> None:
    script = f"{_PREAMBLE}GIVEN, CHANGED, IS_LATER = [{given}] * 3, 1.0, {is_later}\n"
    for off in noted(tmp_path, script + _OTHER_ARGUMENTS):
        assert max(off) < 1e-6
