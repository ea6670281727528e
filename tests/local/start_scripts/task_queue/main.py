"""A head on the first host with a queue of tasks; every other host works on it."""

import json
import os
import sys
import time
from multiprocessing.managers import BaseManager
from queue import Queue

PORT = 6379
groups = json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])
me = os.environ["SM_CURRENT_HOST"]
head = groups["head_group"]["hosts"][0]


class Queues(BaseManager):
    pass


if me == head:
    tasks, results = Queue(), Queue()
    Queues.register("tasks", callable=lambda: tasks)
    Queues.register("results", callable=lambda: results)
    manager = Queues(address=("", PORT), authkey=b"k")
    manager.start()
    waiting, done = manager.tasks(), manager.results()
    count = int(sys.argv[sys.argv.index("--tasks") + 1])
    for number in range(count):
        waiting.put(number)
    print("sum of squares", sum(done.get(timeout=120) for _ in range(count)), flush=True)
    workers = len(json.loads(os.environ["SM_HOSTS"])) - 1
    for _ in range(workers):
        waiting.put(None)
    for _ in range(workers):
        done.get(timeout=120)
else:
    Queues.register("tasks")
    Queues.register("results")
    manager = Queues(address=(head, PORT), authkey=b"k")
    while True:
        try:
            manager.connect()
            break
        except OSError:
            time.sleep(0.2)
    waiting, done = manager.tasks(), manager.results()
    while (number := waiting.get()) is not None:
        done.put(number * number)
    done.put("left")
