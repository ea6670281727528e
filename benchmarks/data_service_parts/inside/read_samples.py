"""The training script that takes batches of samples which cost work."""

import os

import consumer
import variables
from checks import Indices

from launcher.data import DataLoader

samples, size = (int(os.environ[name]) for name in (variables.BATCH, variables.SAMPLE_BYTES))
loader = DataLoader(os.environ[variables.DATASET], batch_size=samples, tensors=False)
consumer.serve(iter(loader), Indices(samples, size))
