"""With this folder on its path a process has a wall clock that can be set: seconds to add, in a file (CLOCK_SHIFT)."""

import os
import time

_true_time = time.time


def _shifted() -> float:
    try:
        with open(os.environ["CLOCK_SHIFT"]) as file:
            return _true_time() + float(file.read() or 0)
    except OSError:
        return _true_time()


time.time = _shifted
