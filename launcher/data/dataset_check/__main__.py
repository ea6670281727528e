"""Entry point of `python -m launcher.data.dataset_check`: a request on stdin, an answer in a file.

With the argument "again", the process prepares the samples of another one once more; with "costs",
it measures what samples cost, and with "rates", how many it prepares beside other processes.
"""

import os
import sys

from launcher.data.dataset_check.checked_dataset import DatasetCheck, main
from launcher.data.dataset_check.sample_costs import CostMeasurement, RateMeasurement

if __name__ == "__main__":
    arguments = sys.argv[1:]
    kinds = {"costs": CostMeasurement, "rates": RateMeasurement}
    check = kinds.get("".join(arguments), DatasetCheck)
    code = main(sys.stdin.read(), check, again=arguments == ["again"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that the dataset started must not hold the answer back
