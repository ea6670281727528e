"""Twenty questions whose right answer follows without the planner: the reason is beside each."""

from __future__ import annotations

from typing import Any

import pytest
from test_recommendation import changed, chosen, priced

from launcher.client.planning import Measure, ModelFigures, PlanLimits, PlanOrder
from launcher.shared import Footprint

#: Dollars an hour; the questions need no more of prices than their order.
PRICES = {
    "g5.xlarge": 1.408, "g5.4xlarge": 2.03, "g5.16xlarge": 5.12, "g5.48xlarge": 20.36,
    "g6.xlarge": 1.1267, "p4d.24xlarge": 25.25, "c5.xlarge": 0.204, "c5.2xlarge": 0.408,
    "c7i.2xlarge": 0.408, "c5.9xlarge": 1.836, "c5.18xlarge": 3.672,
}  # fmt: skip
BY_TIME, HOSTS = {"order": PlanOrder.TIME}, {"train_hosts": (1, 2, 4)}


def cpu(milliseconds: float, **more: Any) -> dict[str, Any]:
    return {"cpu_seconds_per_sample": Measure.exact(milliseconds / 1e3), **more}


def gradients(gigabytes: float, states: float = 0.0) -> dict[str, Any]:
    size = round(gigabytes * 1e9)
    footprint = Footprint(
        parameters=size, gradients=size, states=round(states * 1e9), largest=size // 50
    )
    return {"model": ModelFigures(footprint=footprint)}


def on(**milliseconds: float) -> dict[str, Any]:
    return {
        "gpu_seconds_per_step": {
            f"NVIDIA {name}": Measure.exact(each / 1e3) for name, each in milliseconds.items()
        }
    }


#: A step of 64 samples takes an A10G 50 ms. Of each question: what differs, the types, what is
#: asked for, and the train hosts with their data hosts' type; None where none is right.
QUESTIONS: dict[str, tuple[dict[str, Any], str, dict[str, Any], str | None]] = {
    # 64 ms of vCPUs on three, beside 50 ms: the smallest host is enough.
    "light preparation": (cpu(1), "g5.xlarge g5.4xlarge c5.xlarge", {}, "1 g5.xlarge"),
    # 640 ms on three vCPUs are 4 steps; on 15 less than one, for 44 % more.
    "a larger host": (cpu(10), "g5.xlarge g5.4xlarge", {}, "1 g5.4xlarge"),
    # The same beside data hosts: 1.408 + 1.836 for what 2.03 do.
    "a larger host, not a data host": (
        *(cpu(10), "g5.xlarge g5.4xlarge c5.9xlarge", {}),
        "1 g5.4xlarge",
    ),
    # 6.4 s need 128 vCPUs: no host has them, and those of c5.18xlarge are the cheapest.
    "heavy preparation": (
        *(cpu(100), "g5.xlarge g5.16xlarge c5.18xlarge", {}),
        "1 g5.xlarge with c5.18xlarge",
    ),
    # By time as well, and two hosts reach 50 ms where three smaller ones would.
    "heavy preparation, by time": (
        *(cpu(100), "g5.xlarge g5.16xlarge c5.18xlarge", BY_TIME),
        "1 g5.16xlarge with c5.18xlarge",
    ),
    # To receive 2 GB takes 0.28 s of CPU, to prepare them 0.19 s.
    "batches that are dearer to send": (
        *(cpu(3, bytes_per_batch=2e9), "g5.xlarge c5.9xlarge", {}),
        "1 g5.xlarge",
    ),
    # Nobody knows what hosts exchange: one is known to work.
    "an unknown exchange": (cpu(1), "g5.xlarge", HOSTS | BY_TIME, "1 g5.xlarge"),
    "an unknown exchange of all": (cpu(1), "g5.xlarge", {"train_hosts": (2,)}, None),
    # A GB of gradients over 2.5 Gbit/s takes seconds beside 50 ms.
    "a slow network": (cpu(1) | gradients(1), "g5.xlarge", HOSTS | BY_TIME, "1 g5.xlarge"),
    # 10 MB over it take 46 ms of 450, so four hosts train 3.6 times as fast.
    "a small model on several hosts": (
        *(cpu(1) | gradients(0.01) | on(A10G=450), "g5.xlarge", HOSTS | BY_TIME),
        "4 g5.xlarge",
    ),
    # ... and by price one does, whose samples cost less without an exchange.
    "a small model, by price": (
        *(cpu(1) | gradients(0.01) | on(A10G=450), "g5.xlarge", HOSTS),
        "1 g5.xlarge",
    ),
    # A batch must fit into memory: 40 GB into 16 GiB do not, 10 GB into half of 64 GiB do.
    "a batch that fits nowhere": (cpu(1, bytes_per_batch=4e10), "g5.xlarge", {}, None),
    "a batch that needs a larger host": (
        *(cpu(1, bytes_per_batch=1e10), "g5.xlarge g5.4xlarge", {}),
        "1 g5.4xlarge",
    ),
    # 80 GB do not fit into 24; over eight GPUs in shards they do.
    "a model that needs eight GPUs": (
        *(cpu(1) | gradients(20, states=40), "g5.xlarge g5.48xlarge", {}),
        "1 g5.48xlarge",
    ),
    # 16 workers that wait 20 ms a sample need 84 ms, 64 of a host with the memory 21.
    "samples that wait for storage": (
        *(cpu(1, wait_seconds_per_sample=Measure.exact(0.02)), "g5.xlarge g5.4xlarge", {}),
        "1 g5.4xlarge",
    ),
    # Two c5.xlarge are what $2 an hour leave.
    "a limit of dollars": (
        *(cpu(10), "g5.xlarge c5.xlarge", {"limits": PlanLimits(max_cost_per_hour=2)}),
        "1 g5.xlarge with c5.xlarge",
    ),
    # Half the step for 80 % of the price; a fifth for 2.2 times the price of a GPU.
    "a faster accelerator": (
        *(cpu(0.1) | on(A10G=50, L4=100), "g5.xlarge g6.xlarge", {}),
        "1 g5.xlarge",
    ),
    "a much faster accelerator": (
        *(cpu(0.1) | on(A10G=50, A100=10), "g5.4xlarge p4d.24xlarge", {}),
        "1 p4d.24xlarge",
    ),
    # ... which waits for its 88 vCPUs, 11 for a GPU, where the other has 15 for one.
    "a faster accelerator that starves": (
        *(cpu(10) | on(A10G=50, A100=10), "g5.4xlarge p4d.24xlarge", {}),
        "1 g5.4xlarge",
    ),
    # A vCPU of c7i is faster at the same price, unless the workload says that it is not.
    "a faster CPU": (
        cpu(30),
        "g5.xlarge c5.2xlarge c7i.2xlarge",
        {},
        "1 g5.xlarge with c7i.2xlarge",
    ),
    "a CPU that was measured to be slower": (
        *(cpu(30, cpu_speed={"c5": 1, "c7i": 0.7}), "g5.xlarge c5.2xlarge c7i.2xlarge", {}),
        "1 g5.xlarge with c5.2xlarge",
    ),
    # Three minutes of start-up are billed for each host, and a minute of training.
    "a short job": (
        cpu(1, start_seconds=Measure.exact(180), samples_per_epoch=64 * 120, epochs=10)
        | {"communication_seconds_per_step": Measure.exact(0)},
        *("g5.xlarge", HOSTS, "1 g5.xlarge"),
    ),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_right_cluster_is_recommended(
    question: tuple[dict[str, Any], str, dict[str, Any], str | None],
) -> None:
    changes, names, asked, right = question
    types = [priced(f"ml.{name}", PRICES[name]) for name in names.split()]
    best = chosen(changed(**changes), types, **asked).best

    answer = None
    if best:
        train, data = best.shape.train, best.shape.data
        answer = (
            f"{train.count} {train.instance.name}{f' with {data.instance.name}' if data else ''}"
        )
    assert (answer and answer.replace("ml.", "")) == right
