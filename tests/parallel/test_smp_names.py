"""The table of smp's PyTorch API in docs/smp.md has every name of AWS's reference, and is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

import launcher.parallel.smp as smp
from launcher.errors import ParallelError

PAGE = Path(__file__).parents[2] / "docs" / "smp.md"

#: The names of AWS's pages on PyTorch, tensor parallelism and the common API: SageMaker Python SDK
#: v2.200, doc/api/training/smp_versions/latest.
PROVIDED = (
    *("init", "is_initialized", "is_tracing", "step", "StepOutput", "partition", "save", "load"),
    *("DistributedModel", "DistributedOptimizer", "model_creation", "delay_param_initialization"),
    *("save_checkpoint", "resume_from_checkpoint", "set_activation_checkpointing"),
    *("amp.GradScaler", "nn.FusedLayerNorm"),
    *("CommGroup", "RankType", "WORLD", "MP_GROUP", "DP_GROUP", "PP_GROUP", "RDP_GROUP"),
    *("TP_GROUP", "broadcast", "send", "recv_from", "allgather", "barrier"),
    *("mp_barrier", "dp_barrier", "pp_barrier", "rdp_barrier", "tp_barrier"),
    *("rank", "size", "local_rank", "local_size", "pp_rank", "pp_size", "mp_rank", "mp_size"),
    *("dp_rank", "dp_size", "rdp_rank", "rdp_size", "tp_rank", "tp_size"),
    *("get_pp_group", "get_mp_group", "get_dp_group", "get_rdp_group", "get_tp_group"),
    *("get_world_process_group", "get_pp_process_group", "get_mp_process_group"),
    *("get_dp_process_group", "get_rdp_process_group", "get_tp_process_group"),
)
REFUSED = (
    *("tensor_parallelism", "set_tensor_parallelism", "tp_register", "tp_register_with_module"),
    *("nn.DistributedLinear", "nn.DistributedTransformerLMHead", "nn.DistributedTransformer"),
    *("nn.DistributedTransformerLayer", "nn.DistributedAttentionLayer", "nn.DistributedEmbedding"),
    *("nn.DistributedTransformerOutputLayer", "nn.FlashAttentionLayer"),
    *("optimizers.FusedNovoGrad", "optimizers.FusedLamb"),
    *("patches.checkpoint.checkpoint", "patches.checkpoint.checkpoint_sequential"),
)


def told() -> dict[str, bool]:
    """Return the names of the table's first column, each with its row's first word."""
    table = PAGE.read_text().split("| name | state |")[1].split("\n\n")[0]
    found = {}
    for row in table.splitlines()[2:]:
        names, state = row.strip("| ").split(" | ", 1)
        for name in re.findall("`([^`]*)`", names):
            found[name.removeprefix("@")] = state.startswith("refused")
    return found


def is_in(name: str, words: str) -> bool:
    """Return whether words of the table, as `pp_` or `nn.Distributed...`, stand for a name."""
    words = words.removeprefix("...")
    if words.endswith(("...", "_")):
        return name.startswith(words.removesuffix("..."))
    return name == words or (words.startswith("_") and name.endswith(words))


def named(name: str) -> object:
    """Return what a script gets by a dotted name."""
    found: object = smp
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", PROVIDED)
def test_a_provided_name_is_there_and_in_the_table(name: str) -> None:
    assert named(name) is not None
    assert any(is_in(name, words) and not is_refused for words, is_refused in told().items())


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_name_says_what_to_use(name: str) -> None:
    assert any(is_in(name, words) and is_refused for words, is_refused in told().items())
    with pytest.raises(ParallelError, match=rf"smp\.{re.escape(name)} is not supported.*: "):
        named(name)


@pytest.mark.parametrize(
    "line",
    [
        "from launcher.parallel.smp.nn import FlashAttentionLayer",
        "from launcher.parallel.smp.optimizers import FusedLamb",
        "from launcher.parallel.smp.patches.checkpoint import checkpoint_sequential",
    ],
)
def test_it_says_so_when_it_is_imported(line: str) -> None:
    with pytest.raises(ParallelError, match="is not supported"):
        exec(line)
