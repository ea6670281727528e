"""Copies of page-locked batches to the GPU: asynchronous, right, fast, beside computation."""

import json
import os
import statistics
import time
from pathlib import Path

import torch
from images import SHAPE

from launcher.data import DataLoader

told = json.loads(Path("settings.json").read_text())
cuda = torch.device("cuda")
batch_size = told["batch_size"]


def main():
    loader = DataLoader("images:dataset", batch_size, shuffle=True, pin_memory=True, epochs=1)
    batches = iter(loader)
    found = {"wrong": _wrong(batches), **_rates(batches), **_overlap(batches)}
    Path(os.environ["SM_MODEL_DIR"], "result.json").write_text(json.dumps(found))


def _wrong(batches):
    """Count the batches that arrive damaged although each is given back before its copy begins.

    The GPU is kept busy ahead of the copies, so that they happen when the script has long read on.
    """
    seen, bad = [], 0
    for _ in range(told["batches"]):
        images, numbers = next(batches)
        torch.cuda._sleep(told["cycles"])
        seen.append((images.to(cuda, non_blocking=True), numbers.clone()))
        del images
        if len(seen) >= told["kept"]:
            bad += _damaged(seen)
            seen.clear()
    return bad


def _damaged(seen):
    bad = 0
    for images, numbers in seen:
        flat = images.flatten(1)
        expected = (numbers.to(cuda) % 251).to(torch.uint8)
        bad += not bool((flat == expected[:, None]).all())
    return bad


def _rates(batches):
    """Time copies of a batch and of torch's own page-locked memory, and the queueing calls."""
    batch, _ = next(batches)
    torchs = torch.empty(batch_size, *SHAPE, dtype=torch.uint8).pin_memory()
    sides = {"ours": batch, "torch": torchs}
    seconds = {name: [] for name in sides}
    calls = {name: [] for name in sides}
    for _ in range(told["rounds"]):
        for name, source in sides.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(20):
                source.to(cuda, non_blocking=True)
            calls[name].append(time.perf_counter() - began)
            torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - began)
    return {
        "is_pinned": batch.is_pinned(),
        "gigabytes_per_second": [20 * batch.nbytes / 1e9 / each for each in seconds["ours"]],
        "torchs": [20 * batch.nbytes / 1e9 / each for each in seconds["torch"]],
        "call_share": [a / b for a, b in zip(calls["ours"], seconds["ours"], strict=True)],
    }


def _overlap(batches):
    """Time copies on a stream of their own, computation, and both at once."""
    batch, _ = next(batches)
    side = torch.cuda.Stream()
    matrix = torch.randn(4096, 4096, device=cuda, dtype=torch.bfloat16)

    def copy():
        with torch.cuda.stream(side):
            for _ in range(told["copies"]):
                batch.to(cuda, non_blocking=True)

    def compute():
        for _ in range(told["products"]):
            matrix @ matrix

    def both():
        copy()
        compute()

    times = {each.__name__: [] for each in (copy, compute, both)}
    for work in (copy, compute, both):  # warm-up
        work()
    for _ in range(told["rounds"]):
        for work in (copy, compute, both):
            torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times[work.__name__].append(time.perf_counter() - began)
    return {"overlap": {name: statistics.median(each) for name, each in times.items()}}


if __name__ == "__main__":
    main()
