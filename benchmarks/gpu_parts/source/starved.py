"""The same training fed by torch's workers on the train host, and by a data host."""

import json
import os
import threading
import time
from pathlib import Path

import torch
from network import model, train
from photos import dataset

from launcher.data import DataLoader
from launcher.runtime import open_nvml

told = json.loads(Path("settings.json").read_text())


def main():
    network = model(told["widths"])
    found = {
        "train host": _measure(network, _images(_torchs())),
        "data host": _measure(network, _images(_served())),
    }
    Path(os.environ["SM_MODEL_DIR"], "result.json").write_text(json.dumps(found))
    os._exit(0)  # data workers and loaders are still at work


def _torchs():
    options = {"shuffle": True, "pin_memory": True, "num_workers": told["workers"]}
    return torch.utils.data.DataLoader(dataset(), told["batch_size"], **options)


def _served():
    options = {"shuffle": True, "pin_memory": True, "epochs": 1}
    return DataLoader("photos:dataset", told["batch_size"], **options)


def _images(loader):
    for images, _ in loader:
        yield images


def _measure(network, batches):
    """Return images per second and the share of time that the GPU computed, by NVML."""
    train(network, batches, told["warm"])
    busy, over = [], threading.Event()
    nvml = open_nvml()

    def watch():
        while not over.wait(0.2):
            busy.append(nvml.usage().share)

    threading.Thread(target=watch, daemon=True).start()
    began, steps = time.monotonic(), 0
    while time.monotonic() < began + told["seconds"]:
        train(network, batches, 4)
        steps += 4
    passed = time.monotonic() - began
    over.set()
    return {"images": steps * told["batch_size"] / passed, "busy": busy}


if __name__ == "__main__":
    main()
