"""The training script that says when it began, and when it had its first batch."""

import os
import time

import beginning  # before what takes time to import
import consumer
import variables

from launcher.data import DataLoader

connection = consumer.HarnessConnection()
loader = DataLoader(os.environ[variables.DATASET], batch_size=int(os.environ[variables.BATCH]))
next(iter(loader))
first = time.time()
connection.receive()
connection.send(began=beginning.MOMENT, first=first)
