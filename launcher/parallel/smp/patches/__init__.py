"""`smp.patches`, which has the calls by which scripts recompute activations."""

from launcher.parallel.smp.patches import checkpoint as checkpoint
