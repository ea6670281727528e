"""The script of the jobs: reads all batches, leaves a model and output, fails when told to."""

import json
import os
import sys
from pathlib import Path

from launcher.data import DataLoader

seen = [int(number) for batch in DataLoader("compatibility_samples:numbers", 4) for number in batch]
print(f"seen={len(seen)} sum={sum(seen)}", flush=True)
if "--fail" in sys.argv:
    raise ValueError("told to fail")
Path(os.environ["SM_MODEL_DIR"], "seen.json").write_text(json.dumps(seen))
Path(os.environ["SM_OUTPUT_DATA_DIR"], "note.txt").write_text("an output\n")
