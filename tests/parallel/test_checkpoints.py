"""What was saved is loaded as it was, and what is not whole is not loaded."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from architectures import ARCHITECTURES
from ranks import noted

torch = pytest.importorskip("torch")

from launcher import parallel  # noqa: E402 (torch must be there)
from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import ParallelContext, Pipeline  # noqa: E402
from launcher.parallel.checkpoints import Checkpoints, State, export, main  # noqa: E402
from launcher.parallel.pretrained import PretrainedWeights, without_weights  # noqa: E402
from launcher.shared import parse_event  # noqa: E402


@pytest.fixture
def world() -> Iterator[ParallelContext]:
    """Of one process: this one."""
    yield parallel.init()
    parallel.leave()


class Training:
    """A model that learns from batches of random numbers; the same from one seed."""

    def __init__(self, architecture: str = "mlp", kind: Any = torch.optim.AdamW) -> None:
        torch.manual_seed(0)
        self.architecture = ARCHITECTURES[architecture]
        self.model = self.architecture.make().double()
        self.optimizer = kind(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.5)

    @property
    def state(self) -> State:
        shared = {"scheduler": self.scheduler}
        return State(model=self.model, optimizers=[self.optimizer], shared=shared)

    def train(self, steps: range) -> list[float]:
        return [self._step(torch.Generator().manual_seed(step)) for step in steps]

    def _step(self, generator: torch.Generator) -> float:
        given = self.architecture.arguments(generator)
        given = {k: v if k == "ids" else v.double() for k, v in given.items()}
        self.optimizer.zero_grad()
        loss = self.model(**given).sin().mean()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return float(loss.item())


def saved(folder: Path, world: ParallelContext, *steps: int, keep: int = 9) -> Training:
    """Checkpoints of an MLP after some steps."""
    training, checkpoints = Training(), Checkpoints(folder, world, keep=keep)
    for before, step in zip((0, *steps), steps, strict=False):
        training.train(range(before, step))
        checkpoints.save(step, training.state)
    checkpoints.close()
    return training


@pytest.fixture(scope="module")
def three_saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints after 2, 4 and 6 steps, to be copied."""
    folder = tmp_path_factory.mktemp("saved")
    saved(folder, parallel.init(), 2, 4, 6)
    parallel.leave()
    return folder


def events(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, dict[str, Any]]]:
    lines = capsys.readouterr().err.splitlines()
    return [event for line in lines if (event := parse_event(line)) is not None]


def steps_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    "architecture",
    ["gpt, tied", "frozen and unused", "resnet, batch norm", "dropout", "layers left out"],
)
def test_training_resumes_exactly(
    tmp_path: Path, world: ParallelContext, architecture: str
) -> None:
    """To the bit, with what dropout and Python's and numpy's generators draw."""
    first = Training(architecture)
    first.train(range(3))
    checkpoints = Checkpoints(tmp_path, world)
    checkpoints.save(3, first.state)
    undisturbed = first.train(range(3, 8))
    checkpoints.close()
    second = Training(architecture)
    assert Checkpoints(tmp_path, world).load(second.state) == 3
    assert second.train(range(3, 8)) == undisturbed
    for mine, theirs in zip(first.model.buffers(), second.model.buffers(), strict=True):
        assert torch.equal(mine, theirs)


def test_what_is_written_is_what_was_there_when_it_was_saved(
    tmp_path: Path, world: ParallelContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is held before it writes anything, while training goes on."""
    write, has_begun, may_go_on = torch.save, threading.Event(), threading.Event()

    def held(*given: Any, **options: Any) -> None:
        has_begun.set()
        assert may_go_on.wait(60)
        write(*given, **options)

    monkeypatch.setattr(torch, "save", held)
    training, checkpoints = Training(), Checkpoints(tmp_path, world)
    training.train(range(2))
    before = [each.detach().clone() for each in training.model.parameters()]
    checkpoints.save(2, training.state)
    assert has_begun.wait(60)
    training.train(range(2, 4))
    assert not (tmp_path / "step-2" / "manifest.json").exists()
    may_go_on.set()
    checkpoints.close()
    loaded = Training()
    Checkpoints(tmp_path, world).load(loaded.state)
    assert all(map(torch.equal, before, loaded.model.parameters()))


# ---- What is whole -------------------------------------------------------------------------


def _data(folder: Path) -> Path:
    return folder / "__0_0.distcp"


def _flip(folder: Path) -> None:
    file = _data(folder)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _edited(**entries: object) -> Callable[[Path], Any]:
    """An editor that changes entries of a manifest, and has no digest, as those of before."""

    def edit(folder: Path) -> None:
        file = folder / "manifest.json"
        manifest = {**json.loads(file.read_text()), **entries}
        del manifest["digest"]
        file.write_text(json.dumps(manifest))

    return edit


def _untied(folder: Path) -> None:
    file = folder / "manifest.json"
    file.write_text(file.read_text().replace('"tied": {}', '"tied": {"a": "b"}'))


def _in_place_of_a_file(folder: Path) -> None:
    _data(folder).unlink()
    _data(folder).mkdir()


_DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda folder: _data(folder).unlink(), "__0_0.distcp is missing"),
    "shorter": (lambda folder: os.truncate(_data(folder), 99), "__0_0.distcp has 99 bytes instead"),
    "changed": (_flip, "__0_0.distcp is damaged: its hash differs from the manifest's"),
    "no index": (lambda folder: (folder / ".metadata").unlink(), ".metadata is missing"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "has no manifest.json"),
    "torn manifest": (lambda f: os.truncate(f / "manifest.json", 99), "manifest.json is damaged"),
    "of another step": (_edited(step=7), "manifest.json is damaged: it belongs to step 7"),
    "edited": (_untied, "manifest.json is damaged: its contents differ from its digest"),
    "endless step": (_edited(step=float("inf")), "manifest.json is damaged: OverflowError"),
    "no degrees": (_edited(degrees={}), "manifest.json is damaged: KeyError('data')"),
    "no replicas": (_edited(degrees={"data": 0}), "manifest.json is damaged: 0 replicas"),
    "degrees as text": (_edited(degrees="data"), "manifest.json is damaged: TypeError"),
    "tied to a number": (_edited(tied={"a": 1}), "manifest.json is damaged: 1 is no name"),
    "files as a list": (_edited(files=[1]), "manifest.json is damaged: AttributeError"),
    "a long name": (
        _edited(files={"a" * 300: {"size": 1, "sha256": ""}}),
        "a" * 300 + " cannot be read: ",
    ),
    "a newer format": (_edited(format=2), "{folder}/manifest.json has format 2"),
    "a folder": (_in_place_of_a_file, "__0_0.distcp"),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_checkpoint_is_skipped_and_reported(
    three_saved: Path,
    tmp_path: Path,
    world: ParallelContext,
    capsys: pytest.CaptureFixture[str],
    damage: str,
) -> None:
    shutil.copytree(three_saved, tmp_path, dirs_exist_ok=True)
    break_it, words = _DAMAGES[damage]
    break_it(tmp_path / "step-6")
    again = Training()
    assert Checkpoints(tmp_path, world).load(again.state) == 4
    assert again.scheduler.last_epoch == 4
    name, fields = events(capsys)[-1]
    assert (name, fields["step"]) == ("checkpoint_loaded", 4)
    words = words.replace("{folder}", str(tmp_path / "step-6"))
    assert f"step-6 {words}" in fields["skipped"]
    break_it(tmp_path / "step-4")
    assert Checkpoints(tmp_path, world).load(again.state) == 2


def test_there_is_nothing_to_load_before_the_first_save(
    tmp_path: Path, world: ParallelContext
) -> None:
    assert Checkpoints(tmp_path / "not there", world).load(Training().state) is None


def test_a_first_save_that_did_not_end_is_no_checkpoint(
    tmp_path: Path, world: ParallelContext, capsys: pytest.CaptureFixture[str]
) -> None:
    training = saved(tmp_path, world, 2)
    (tmp_path / "step-2" / "manifest.json").unlink()
    checkpoints = Checkpoints(tmp_path, world)
    assert checkpoints.load(training.state) is None
    name, fields = events(capsys)[-1]
    assert (name, fields["skipped"]) == ("checkpoint_absent", "step-2 has no manifest.json")
    checkpoints.save(2, training.state, wait=True)  # over the remains
    assert Checkpoints(tmp_path, world).load(training.state) == 2


def test_training_does_not_begin_again_when_all_checkpoints_are_damaged(
    tmp_path: Path, world: ParallelContext
) -> None:
    training = saved(tmp_path, world, 2, 4)
    _flip(tmp_path / "step-2")
    _data(tmp_path / "step-4").unlink()
    with pytest.raises(ParallelError, match=r"no checkpoint in .* is complete: step-4 .*; step-2 "):
        Checkpoints(tmp_path, world).load(training.state)


def test_a_newer_format_alone_is_refused_and_never_deleted(
    tmp_path: Path, world: ParallelContext
) -> None:
    training = saved(tmp_path, world, 2, 4)
    _edited(format=2)(tmp_path / "step-4")
    checkpoints = Checkpoints(tmp_path, world, keep=1)
    assert checkpoints.load(training.state) == 2
    with pytest.raises(ParallelError, match="written by another version of Launcher"):
        checkpoints.save(4, training.state, wait=True)
    checkpoints.save(6, training.state, wait=True)
    assert steps_in(tmp_path) == ["step-4", "step-6"]
    _edited(format=2)(tmp_path / "step-6")
    with pytest.raises(ParallelError, match=r"has format 2, but this Launcher reads only 1"):
        Checkpoints(tmp_path, world).load(training.state)


def test_older_ones_go_when_the_newest_is_complete(tmp_path: Path, world: ParallelContext) -> None:
    training = saved(tmp_path, world, 2, 4, 6)
    (tmp_path / "step-5").mkdir()  # a save that did not end
    checkpoints = Checkpoints(tmp_path, world, keep=2)
    assert checkpoints.load(training.state) == 6
    checkpoints.save(6, training.state, wait=True)  # is there
    assert steps_in(tmp_path) == ["step-2", "step-4", "step-5", "step-6"]
    checkpoints.save(8, training.state)
    checkpoints.close()
    assert steps_in(tmp_path) == ["step-6", "step-8"]


def test_another_runs_checkpoints_are_not_mixed_with_this_ones(
    tmp_path: Path, world: ParallelContext
) -> None:
    training = saved(tmp_path, world, 4)
    with pytest.raises(ParallelError, match=r"step-4 is complete, so step 2 cannot be saved after"):
        Checkpoints(tmp_path, world).save(2, training.state, wait=True)


def test_what_goes_wrong_in_the_thread_is_raised_at_the_next_call(
    tmp_path: Path, world: ParallelContext
) -> None:
    (tmp_path / "step-1").write_text("a file where a folder should be")
    training, checkpoints = Training(), Checkpoints(tmp_path, world)
    checkpoints.save(1, training.state)
    with pytest.raises(ParallelError, match=r"step 1 is not saved in .*: NotADirectoryError"):
        checkpoints.save(2, training.state)
    checkpoints.save(1, training.state)
    with pytest.raises(ParallelError, match="step 1 is not saved"):
        checkpoints.close()


# ---- What is of another model --------------------------------------------------------------


def _refused(folder: Path, world: ParallelContext, state: State) -> str:
    with pytest.raises(ParallelError) as caught:
        Checkpoints(folder, world).load(state)
    return str(caught.value)


def _changed(change: Callable[[Any], Any]) -> State:
    training = Training()
    change(training.model)
    return State(model=training.model)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            lambda: _changed(lambda model: model.append(torch.nn.Linear(6, 2))),
            "the model has 5.weight, but the checkpoint does not; the model has 5.bias",
        ),
        (
            lambda: _changed(lambda model: model.pop(4)),
            "the checkpoint has 4.0.bias, but the model does not; the checkpoint has 4.0.weight",
        ),
        (
            lambda: _changed(lambda model: model.insert(5, torch.nn.Identity()).float()),
            "0.0.weight is torch.float32 [6, 6] in the model, but torch.float64 [6, 6] in the",
        ),
        (
            lambda: _changed(
                lambda model: setattr(model[0], "0", torch.nn.Linear(6, 7, dtype=torch.float64))
            ),
            "0.0.bias is torch.float64 [7] in the model, but torch.float64 [6] in the checkpoint",
        ),
        (
            lambda: _changed(lambda model: setattr(model[1], "0", model[0][0])),
            "0.0.weight and 1.0.weight are tied in the model, but have different values in the",
        ),
        (
            lambda: Training(kind=torch.optim.SGD).state,
            "was trained with AdamW, but its optimizer is now SGD",
        ),
        (
            lambda: State(model=Training().model, shared={"scaler": torch.amp.GradScaler("cpu")}),
            "the checkpoint has no shared/scaler",
        ),
    ],
    ids=["missing", "foreign", "type", "shape", "tied", "optimizer", "shared"],
)
def test_a_checkpoint_of_another_model_is_refused(
    three_saved: Path, world: ParallelContext, state: Callable[[], State], words: str
) -> None:
    assert words in _refused(three_saved, world, state())


def test_a_model_that_does_not_tie_what_was_tied_is_refused(
    tmp_path: Path, world: ParallelContext
) -> None:
    Checkpoints(tmp_path, world).save(2, Training("gpt, tied").state, wait=True)
    words = _refused(tmp_path, world, Training("gpt").state)
    assert "head.weight is tied to tokens.weight in the checkpoint, but is a separate" in words


def test_an_optimizer_of_other_parameters_is_refused(
    tmp_path: Path, world: ParallelContext
) -> None:
    training, other = Training(), Training()
    with pytest.raises(ParallelError, match=r"has a parameter of shape \[6, 6\] that is not in"):
        Checkpoints(tmp_path, world).save(
            1, State(model=training.model, optimizers=[other.optimizer])
        )


def test_an_optimizer_may_know_the_names_of_its_parameters(
    tmp_path: Path, world: ParallelContext
) -> None:
    """Each stage has those of its own."""
    model = Training().model
    named = list(model.named_parameters())
    halves = [torch.optim.AdamW(part, lr=0.01) for part in (named[:2], named[2:])]
    Checkpoints(tmp_path, world).save(1, State(model=model, optimizers=halves), wait=True)
    whole = torch.optim.AdamW(named, lr=1.0)
    assert Checkpoints(tmp_path, world).load(State(model=model, optimizers=[whole])) == 1
    (group,) = whole.param_groups
    assert (group["lr"], group["param_names"]) == (0.01, [name for name, _ in named])


# ---- One file ------------------------------------------------------------------------------


@pytest.mark.long
def test_an_exported_model_is_a_plain_state_dict(
    tmp_path: Path, world: ParallelContext, capsys: pytest.CaptureFixture[str]
) -> None:
    training, checkpoints = Training("gpt, tied"), Checkpoints(tmp_path / "all", world)
    training.train(range(2))
    checkpoints.save(2, training.state, wait=True)
    file = tmp_path / "model.pt"
    assert main(["export", str(tmp_path / "all"), str(file)]) == 0
    assert f"the model of {tmp_path / 'all' / 'step-2'}" in capsys.readouterr().out
    plain = torch.load(file, weights_only=True)
    expected = training.model.state_dict()
    assert plain.keys() == expected.keys()
    assert "head.weight" in plain
    assert all(torch.equal(plain[name], value) for name, value in expected.items())
    assert plain["head.weight"].data_ptr() == plain["tokens.weight"].data_ptr()


class Aliased(torch.nn.Module):
    """Has a module under two names, and calls it by the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        self.again = self.layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(x)


def test_all_names_of_a_stages_module_are_exported(tmp_path: Path, world: ParallelContext) -> None:
    pipeline = Pipeline(
        Aliased(),
        world,
        starts=(),
        example={"x": torch.ones(1, 6)},
        loss=lambda output, target: output.mean(),
    )
    Checkpoints(tmp_path, world).save(1, State(model=pipeline), wait=True)
    export(tmp_path, tmp_path / "model.pt")
    plain = torch.load(tmp_path / "model.pt", weights_only=True)
    assert plain.keys() == Aliased().state_dict().keys()


def test_a_checkpoint_becomes_a_folder_for_from_pretrained(
    tmp_path: Path, world: ParallelContext, capsys: pytest.CaptureFixture[str]
) -> None:
    training, checkpoints = Training("gpt, tied"), Checkpoints(tmp_path / "all", world)
    checkpoints.save(2, training.state, wait=True)
    like, out = tmp_path / "original", tmp_path / "out"
    command = ["export", str(tmp_path / "all"), str(out), "--like", str(like)]
    assert main(command) == 1
    assert "original has no config.json" in capsys.readouterr().err
    like.mkdir()
    (like / "config.json").write_text('{"dtype": "float32"}')
    assert main(command) == 0
    assert sorted(each.name for each in out.iterdir()) == ["config.json", "model.safetensors"]
    with without_weights():
        loaded = Training("gpt, tied").model
    PretrainedWeights(out).load(loaded, loaded, torch.device("cpu"))
    assert all(map(torch.equal, loaded.parameters(), training.model.parameters()))


def test_safetensors_are_as_their_own_load_model_wants_them(
    tmp_path: Path, world: ParallelContext
) -> None:
    from safetensors.torch import load_model

    training = Training("gpt, tied")
    Checkpoints(tmp_path, world).save(0, training.state, wait=True)
    export(tmp_path, tmp_path / "model.safetensors")
    loaded = Training("gpt, tied").model
    for parameter in loaded.parameters():
        torch.nn.init.zeros_(parameter)
    load_model(loaded, tmp_path / "model.safetensors")
    assert all(map(torch.equal, loaded.parameters(), training.model.parameters()))


def test_without_safetensors_their_files_are_refused(
    tmp_path: Path, world: ParallelContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, world, 2)
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(ParallelError, match="the package safetensors is not installed"):
        export(tmp_path, tmp_path / "model.safetensors")
    assert steps_in(tmp_path) == ["step-2"]


def test_what_cannot_be_exported_is_reported(
    tmp_path: Path, world: ParallelContext, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "all", world, 2)
    _flip(tmp_path / "all" / "step-2")
    for folder, file, words in (
        (
            tmp_path / "none",
            "m.pt",
            "is not a folder: give the folder that checkpoints were saved in",
        ),
        (tmp_path, "m.pt", "is not a complete checkpoint: it has no manifest.json"),
        (tmp_path / "all", "m.pt", "step-2 __0_0.distcp is damaged"),
        (tmp_path / "all" / "step-2", "m.pt", "it __0_0.distcp is damaged"),
    ):
        assert main(["export", str(folder), str(tmp_path / file)]) == 1
        assert words in capsys.readouterr().err
    saved(tmp_path / "good", world, 2)
    assert main(["export", str(tmp_path / "good"), str(tmp_path / "not" / "there.pt")]) == 1
    assert "there.pt cannot be written" in capsys.readouterr().err


# ---- Several ranks -------------------------------------------------------------------------

_FULL_DISK = """
import resource
from launcher.parallel.checkpoints import Checkpoints, State

world = parallel.init(pipeline=2, microbatches=2)
architecture = ARCHITECTURES["gpt, tied"]
pipeline = Pipeline(
    architecture.make(), world, starts=("blocks.2",),
    example=architecture.arguments(torch.Generator()),
    loss=lambda output, target: output.sin().mean(),
)
checkpoints, state = Checkpoints(os.environ["FOLDER"], world), State(model=pipeline)
checkpoints.save(4, state, wait=True)
if parallel.rank() == 1:  # its disk is full, so to speak
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
checkpoints.save(5, state)
note(refused(checkpoints.close))
"""


@pytest.mark.long
def test_a_rank_that_cannot_write_fails_the_save_on_all_ranks(tmp_path: Path) -> None:
    for words in noted(tmp_path, _FULL_DISK, FOLDER=str(tmp_path / "all")):
        assert "step 5 is not saved in" in words
        assert "File too large (rank 1)" in words
    written = json.loads((tmp_path / "all" / "step-4" / "manifest.json").read_text())
    assert written["tied"] == {"head.weight": "tokens.weight"}
    assert written["degrees"]["pipeline"] == 2
