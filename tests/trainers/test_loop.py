"""The loop in this process, which is the only rank: what it reads, evaluates, tells and leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tasks import furthest, lines  # noqa: E402
from torch import nn  # noqa: E402 - they need torch
from waiting import wait_until  # noqa: E402

from launcher import parallel  # noqa: E402
from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel.checkpoints import manifests  # noqa: E402
from launcher.parallel.pretrained import write_tensors  # noqa: E402
from launcher.trainers import EarlyStopping, MetricAccumulator, train  # noqa: E402

WAYS = {"whole": "{}", "one stage": '{"microbatches": 3}'}


@pytest.fixture(autouse=True)
def one_rank() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    if torch.distributed.is_initialized():  # a training that was refused
        parallel.leave()


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the job says, in both ways to train on one rank."""
    monkeypatch.setenv("LAUNCHER_PARALLEL", request.param)
    return str(request.param)


def trained(task: Any, folder: Path) -> dict[str, Any]:
    """The weights that a training leaves."""
    train(task, folder)
    weights: dict[str, Any] = torch.load(folder / "model.pt", weights_only=True)
    return weights


class Mixed(nn.Module):
    """Draws random numbers, in eval mode too, and has running means."""

    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x) / 10

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.3))
        self.noise = self.Noise()
        self.head = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.noise(self.layers(x)))[:, 0]


def with_frozen_norm() -> nn.Module:
    model = Mixed().double()
    model.layers[1].eval()
    return model


# Mixed's batch norm is trained on few samples at once, as nobody would.
@pytest.mark.filterwarnings("ignore:layers.1 and 0 other batch norms compute:UserWarning")
@pytest.mark.parametrize(
    "model",
    [lambda: Mixed().double(), lambda: Mixed().double().eval(), with_frozen_norm],
    ids=["in train mode", "in eval mode", "with a part in eval mode"],
)
def test_training_continues_after_an_evaluation_unchanged(
    make: Callable[..., Any], tmp_path: Path, way: str, model: Callable[[], nn.Module]
) -> None:
    given = {"model": model, "epochs": 2}
    judged = trained(make(**given), tmp_path / "judged")
    not_judged = make(**given, validation_data=None, metrics={})
    assert furthest(judged, trained(not_judged, tmp_path / "not judged")) == 0
    has_counted = bool(judged["layers.1.num_batches_tracked"])
    assert has_counted is (model is not with_frozen_norm)


def test_dropout_drops_other_elements_in_each_step(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    seen = []

    class Seeing(nn.Dropout):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            dropped = super().forward(x)
            seen.append(dropped == 0)
            return dropped

    def model() -> nn.Module:
        return nn.Sequential(Seeing(0.5), nn.Linear(6, 1), nn.Flatten(0)).double()

    trained(make(model=model, epochs=1, validation_data=None, metrics={}), tmp_path)
    assert len({str(mask.tolist()) for mask in seen}) == len(seen) == 5


def test_labels_that_do_not_count_are_left_out_of_the_means(
    make: Callable[..., Any], tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only targets below -1 count: none of the last whole microbatch, and the sample after it."""
    outputs, targets = [], []

    def mean(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target)[target < -1].abs().mean()

    def noted(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        outputs.append(output)
        targets.append(target)
        return mean(output, target)

    task = make(
        epochs=1, metrics={"noted": noted}, valid=lambda target: (target < -1).sum(), loss=mean
    )
    train(task, tmp_path)
    whole = mean(torch.cat(outputs), torch.cat(targets)).item()
    import pipeline

    judged = pipeline.validation_set()
    assert sum((t < -1).sum() for t in targets) == sum(judged[n][1] < -1 for n in range(21))
    (line,) = lines(capsys.readouterr().err, "evaluation")
    assert line["validation_noted"] == line["validation_loss"] == pytest.approx(whole, abs=1e-6)


def test_a_step_is_logged_with_its_times(
    make: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(make(epochs=2), tmp_path)
    first, *_ = lines(capsys.readouterr().err, "train_step")
    assert (first["epoch"], first["step"], first["steps"]) == (0, 1, 10)
    assert first.keys() >= {"loss", "data_wait", "compute", "communication", "samples_per_second"}
    assert first["compute"] > 0
    assert first["data_wait"] > 0


class Aliased(nn.Module):
    """Has a module under two names, and calls it by the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.again = self.layer
        self.head = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.again(x))[:, 0]


def test_all_names_of_a_module_are_in_the_model_that_is_left(
    make: Callable[..., Any], tmp_path: Path, way: str
) -> None:
    task = make(model=lambda: Aliased().double(), epochs=1, validation_data=None, metrics={})
    weights = trained(task, tmp_path)
    assert weights.keys() == Aliased().state_dict().keys()


class Extra(nn.Linear):
    """Saves more than tensors, and under a name of its own."""

    def __init__(self) -> None:
        super().__init__(6, 1)
        self._register_state_dict_hook(
            lambda module, state, prefix, _: state.update({f"{prefix}scale": torch.ones(1)})
        )

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 1}

    def set_extra_state(self, state: object) -> None:
        """Leave it."""


def test_what_modules_add_to_their_state_is_in_the_model_that_is_left(
    make: Callable[..., Any], tmp_path: Path, way: str
) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 6), Extra(), nn.Flatten(0)).double()

    weights = trained(make(model=model, epochs=1, validation_data=None, metrics={}), tmp_path)
    assert weights.keys() == model().state_dict().keys()
    assert weights["1._extra_state"] == {"calls": 1}


@pytest.mark.parametrize(
    ("config", "layer", "words"),
    [
        (None, lambda: nn.Linear(6, 1), r"has no config.json, .* write one with {} in it"),
        ("{", lambda: nn.Linear(6, 1), "config.json cannot be read"),
        ("[]", lambda: nn.Linear(6, 1), "config.json is not a JSON object"),
        ("{}", Extra, "1._extra_state of the model's state_dict is not a tensor"),
    ],
    ids=["no configuration", "a cut one", "another", "other state than tensors"],
)
def test_what_could_not_be_written_in_the_end_is_refused_before_a_step(
    make: Callable[..., Any],
    tmp_path: Path,
    way: str,
    config: str | None,
    layer: Callable[[], nn.Module],
    words: str,
) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 6), layer(), nn.Flatten(0)).double()

    (tmp_path / "given").mkdir()
    write_tensors(dict(model().named_parameters()), tmp_path / "given/model.safetensors")
    if config is not None:
        (tmp_path / "given/config.json").write_text(config)
    task = make(model=model, weights=tmp_path / "given", loss=lambda *_: pytest.fail("a step"))
    with pytest.raises(ParallelError, match=words):
        train(task, tmp_path / "model")


class OwnExtra(nn.Sequential):
    def get_extra_state(self) -> torch.Tensor:
        return torch.ones(1)

    def set_extra_state(self, state: object) -> None:
        """Leave it."""


def test_state_that_no_stage_would_save_is_refused(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHER_PARALLEL", WAYS["one stage"])
    task = make(model=lambda: OwnExtra(nn.Linear(6, 1), nn.Flatten(0)).double(), epochs=1)
    with pytest.raises(ParallelError, match="OwnExtra has '_extra_state', which no stage would"):
        train(task, tmp_path)


@pytest.mark.long
def test_what_no_stage_has_is_in_the_model_that_is_left(
    make: Callable[..., Any], tmp_path: Path, way: str
) -> None:
    weights = trained(make(epochs=1), tmp_path)
    task = make()
    torch.manual_seed(task.seed)
    made = task.model()
    made.load_state_dict(weights)
    torch.manual_seed(task.seed)
    assert torch.equal(weights["unused.weight"], task.model().unused.weight)


@dataclass
class Output:
    """What a model returns, in a class of its own."""

    values: torch.Tensor


def test_padding_is_left_out_of_outputs_of_any_class(make: Callable[..., Any]) -> None:
    parallel.init()
    task = make(loss=lambda output, target: (output.values - target).mean(), metrics={})
    metrics = MetricAccumulator(task, torch.device("cpu"))
    metrics.add(Output(torch.tensor([1.0, 2.0, 9.0])), torch.zeros(3), counted=2, of=3)
    assert metrics.means() == {"loss": 1.5}


def test_an_evaluation_without_a_mean_is_not_the_best() -> None:
    stopping = EarlyStopping(patience=2)
    for loss in (float("nan"), 3.0, 2.0):
        stopping.record(loss)
    assert not stopping.is_over


def test_a_scheduler_that_follows_a_metric_is_refused(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(ParallelError, match="ReduceLROnPlateau, which follows a metric"):
        train(make(scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau), tmp_path)


def test_the_optimizer_of_a_pipeline_is_made_once(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other one is tried, on a parameter of the CPU, where nothing is measured."""
    monkeypatch.setenv("LAUNCHER_PARALLEL", WAYS["one stage"])
    made = []

    def optimizer(parameters: list[nn.Parameter]) -> Any:
        made.append(torch.optim.AdamW(parameters, lr=0.01))
        return made[-1]

    trained(make(optimizer=optimizer, epochs=1, validation_data=None, metrics={}), tmp_path)
    assert len(made) == 1


def test_too_few_samples_for_a_step_are_refused(make: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ParallelError, match=r"one optimizer step needs \(71\)"):
        train(make(batch_size=71), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "steps",
    [2, pytest.param(None, marks=pytest.mark.slow)],
    ids=["within an epoch", "after an epoch"],
)
def test_an_interrupted_training_resumes_exactly(
    make: Callable[..., Any],
    tmp_path: Path,
    way: str,
    steps: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ends in the fourth step of the second epoch, of five."""
    given = {"dropout": 0.3, "checkpoint_steps": steps}
    undisturbed = trained(make(**given), tmp_path / "undisturbed")
    monkeypatch.setenv("LAUNCHER_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    task = make(**given)
    manifest = tmp_path / "checkpoints" / f"step-{8 if steps else 5}" / manifests.NAME
    monkeypatch.setattr(
        "launcher.trainers.loop.StepLogger.log_step", ending(step=9, after=manifest)
    )
    with pytest.raises(KeyboardInterrupt):
        train(task, tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("LAUNCHER_PARALLEL", way)
    monkeypatch.setenv("LAUNCHER_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    parallel.leave()
    capsys.readouterr()
    resumed = trained(make(**given), tmp_path / "resumed")
    text = capsys.readouterr().err
    (loaded,) = lines(text, "checkpoint_loaded")
    assert loaded["step"] == (8 if steps else 5)
    assert [line["epoch"] for line in lines(text, "evaluation")] == [1, 2]
    assert furthest(undisturbed, resumed) == 0


def test_a_training_resumes_with_its_batch_size_only(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read one epoch, of five steps."""
    monkeypatch.setenv("LAUNCHER_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    given = {"validation_data": None, "metrics": {}}
    trained(make(epochs=1, **given), tmp_path)
    with pytest.raises(ParallelError, match="at sample 0 of epoch 1, which no 5 steps with a batc"):
        train(make(epochs=2, batch_size=6, **given), tmp_path)
    parallel.leave()
    trained(make(epochs=2, **given), tmp_path)


def ending(*, step: int, after: Path) -> Callable[..., None]:
    """A step that ends the training, once a file is there."""

    def told(self: Any, **at: Any) -> None:
        if at["step"] == step:
            wait_until(after.exists)
            raise KeyboardInterrupt

    return told
