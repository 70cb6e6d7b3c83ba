"""Starts warm_process, which loads nothing before it is asked: once for a test run, whose workers share it.

The first process that imports this module starts it; those below find its folder in the environment.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does; for the workers, and for what they start
FOLDER_VARIABLE = "WARM_PYTHON"


def _start_once() -> Path:
    """The folder of the process, which is started if no process above this one has done so."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    made = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    launcher = made / "python"
    launcher.write_text(f"#!{sys.executable} -IS\n{(HERE / 'warm_launcher.py').read_text(encoding='utf-8')}")
    launcher.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made / "socket"))
        listener.listen(1024)
        words = [sys.executable, str(HERE / "warm_process.py"), str(listener.fileno()), str(launcher)]
        # It ends with its input, a pipe that this process holds.
        process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    atexit.register(process.communicate)
    os.environ[FOLDER_VARIABLE] = str(made)
    return made


FOLDER = _start_once()
