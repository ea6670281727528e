"""A convolutional network, and steps of it."""

import itertools
import time

import torch
from torch import nn

cuda = torch.device("cuda")


def model(channels):
    """Return a network of two convolutions at each width, which halve the sides of images."""
    layers = []
    for before, width in itertools.pairwise([3, *channels]):
        layers += [nn.Conv2d(before, width, 3, stride=2, padding=1), nn.BatchNorm2d(width)]
        layers += [nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)]
        layers += [nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 1000)]
    made = nn.Sequential(*layers, *head).to(cuda, memory_format=torch.channels_last)
    made.optimizer = torch.optim.SGD(made.parameters(), 1e-3)
    return made


def train(network, batches, steps):
    """Return the seconds of a step."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        images = next(batches).to(cuda, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            output = network(images.to(torch.bfloat16, memory_format=torch.channels_last) / 255)
            loss = output.float().square().mean()
        network.optimizer.zero_grad()
        loss.backward()
        network.optimizer.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps
