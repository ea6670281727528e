"""An error is the loss of a peer by its type; its text decides only where the type does not."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts

from launcher.errors import SampleError
from launcher.runtime import Failure, is_peer_loss

MakeHosts = Callable[..., Hosts]

#: One host has a cause of its own; the other fails a second later, as if it had been ended for it.
SECTIONS = """
import os, time
if os.environ["SM_CURRENT_HOST"] == "algo-1":
    raise ValueError("unknown section 'nccl'")
time.sleep(1)
raise KeyError("the later one")
"""


def test_a_users_error_that_names_a_library_is_the_jobs_cause(make_hosts: MakeHosts) -> None:
    hosts = make_hosts({"train.py": SECTIONS}, data=0, train=2)
    hosts.fail()
    first = (hosts["algo-1"].failure or "").splitlines()[0]
    assert first == "host algo-1 (train_group), rank 0: ValueError: unknown section 'nccl'"
    assert hosts["algo-2"].failure is None


def peer_loss(error: BaseException) -> bool:
    return is_peer_loss(error, f"{type(error).__name__}: {error}")


def raised(error: BaseException, reason: BaseException) -> BaseException:
    """An error raised while another was handled."""
    error.__context__ = reason
    return error


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[gloo] Connection closed by peer"), True),
        (ConnectionResetError(104, "Connection reset by peer"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("unknown section 'nccl'"), False),
        (KeyError("heartbeat"), False),
        (FileNotFoundError(2, "No such file", "settings"), False),
        (SampleError("no nccl.json", index=3, remote_traceback=""), False),
        (raised(ValueError("step 7"), RuntimeError("[gloo] Connection reset by peer")), True),
        (raised(ValueError("section 'nccl'"), KeyError("nccl")), False),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_the_type_of_an_error_decides(error: BaseException, lost: bool) -> None:
    assert peer_loss(error) is lost


def test_a_class_of_the_users_script_is_no_loss(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("class GlooMissing(Exception):\n    pass\nerror = GlooMissing('gloo')\n")
    assert not peer_loss(runpy.run_path(str(script), run_name="__main__")["error"])


@pytest.mark.parametrize("name", ["DistBackendError", "DistNetworkError", "DistStoreError"])
def test_errors_of_torch_distributed_are_losses_in_any_words(name: str) -> None:
    distributed = pytest.importorskip("torch.distributed")
    assert peer_loss(getattr(distributed, name)("the others went"))


def test_tensorflows_unavailable_error_is_a_loss_whatever_its_first_line(tmp_path: Path) -> None:
    """Of a graph, "Collective ops is aborted" is below the first line of the message."""
    kind = type("UnavailableError", (Exception,), {})
    kind.__module__ = "tensorflow.python.framework.errors_impl"
    assert peer_loss(kind("Graph execution error:"))
    kind.__module__ = "__main__"
    assert not peer_loss(kind("Graph execution error:"))


@pytest.mark.parametrize("decided", [True, False])
def test_what_the_rank_decided_outweighs_the_text(decided: bool) -> None:
    told = Failure(host="h", group="g", cause="ValueError: 'nccl'", is_peer_loss=decided)
    assert Failure.from_message(told.to_message()).is_secondary is decided
