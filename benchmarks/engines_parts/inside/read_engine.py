"""The training script of Launcher's side."""

import os

import consumer
import work
from samples_check import Samples

from launcher.data import DataLoader

loader = DataLoader("datasets:samples", batch_size=int(os.environ[work.BATCH]), tensors=False)
consumer.serve(iter(loader), Samples())
