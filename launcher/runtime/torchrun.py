"""torchrun over the train group, run so that the end of every rank is known.

`python -m launcher.runtime.torchrun ARGUMENT...` takes torchrun's own arguments. The torchrun
command itself always exits with 1 and tells about signals only in prose; its library raises
ChildFailedError with the exit status of each rank, which is left in a report for the host.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from launcher.runtime.processes import ignore_stop_signals
from launcher.runtime.rank import REPORTS_VARIABLE

REPORT = "torchrun.json"


def main() -> int:
    arguments = run.parse_args(sys.argv[1:])
    # At SIGTERM torchrun would give its ranks 30 s; the host, which signals them itself, gives 110.
    # Versions of torch without this argument always take the signal.
    if hasattr(arguments, "signals_to_handle"):
        arguments.signals_to_handle = "SIGQUIT"
        ignore_stop_signals()
    try:
        run.run(arguments)
    except ChildFailedError as error:
        exits = {rank: failure.exitcode for rank, failure in error.failures.items()}
        (Path(os.environ[REPORTS_VARIABLE]) / REPORT).write_text(json.dumps(exits))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
