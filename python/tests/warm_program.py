"""`leafgate` with everything imported: waits for commands, and forks a process for each. Started by command_line.

In: a socket, whose number is its argument; on it a command's words, folder and environment as JSON, and the files for
its input, output and errors. Out: its exit code on the same socket. A command runs in a process of its own, as it would
from a shell; what is spared is a second of imports, hundreds of times.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys

from leafgate.cli.main import COMMANDS, main

MOST_BYTES = 1 << 20


def next_command(asks: socket.socket) -> list[str]:
    """In the process that was forked for it: the words of a command, everything about it in place."""
    while True:
        asked, files, _, _ = socket.recv_fds(asks, MOST_BYTES, 3)
        if not asked:
            os._exit(0)
        child = os.fork()
        if child == 0:
            asks.close()
            return take_up(json.loads(asked), files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        asks.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def take_up(command: dict[str, object], files: list[int]) -> list[str]:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(str(command["folder"]))
    os.environ.clear()
    os.environ.update(command["env"])  # type: ignore[call-overload]
    words = command["words"]
    assert isinstance(words, list)
    return words


if __name__ == "__main__":
    for module, _ in COMMANDS.values():
        importlib.import_module(module)
    gc.freeze()
    sys.argv[:] = next_command(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
