"""Tracing a model: the calls of its modules, and whatever they change meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel.tracing.draws import Draw, DrawPlace, code_of, is_code, may_draw
    from launcher.parallel.tracing.eval_mode import eval_differences
    from launcher.parallel.tracing.preservation import (
        preserved_state,
        preserved_tensors,
        random_state,
    )
    from launcher.parallel.tracing.python_state import PythonState, Unfollowed, hooks
    from launcher.parallel.tracing.recorded_operations import Constant, Rebuild, Same, flatten, leaf
    from launcher.parallel.tracing.recorder import BY_VALUE, Recorder, Recording
    from launcher.parallel.tracing.writes import Observation, place

__getattr__ = open_door(__name__)
