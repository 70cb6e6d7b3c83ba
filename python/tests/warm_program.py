"""`leafgate` with everything imported and the checkout's maps loaded: waits for commands, and forks a process for each.

command_line starts it with the number of a socket. A request on it is a command's words, folder and environment
as JSON, with the files for its input, output and errors; the answer is its exit code, or its process id if it is to
run in the background. The exit code of that one is asked for later. Every command runs in its own process, as it would
from a shell. This saves a second of imports, and as much for the maps, hundreds of times.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import sys
import traceback

from leafgate.cli.main import COMMANDS, load_command, main
from leafgate.maps import files as map_files
from leafgate.model.errors import LeafgateError
from leafgate.tokens.encoder import Encoder

MOST_BYTES = 1 << 20
ended: dict[int, int] = {}


def next_command(asks: socket.socket) -> list[str]:
    """In the process that was forked for it: the words of a command, everything about it in place."""
    while True:
        asked, files, _, _ = socket.recv_fds(asks, MOST_BYTES, 3)
        if not asked:
            os._exit(0)
        command = json.loads(asked)
        if "poll" in command:
            asks.sendall(f"{exit_code(command['poll'])}\n".encode())
            continue
        child = os.fork()
        if child == 0:
            asks.close()
            return take_up(command, files)
        for file in files:
            os.close(file)
        if command["background"]:
            asks.sendall(f"{child}\n".encode())
            continue
        _, status = os.waitpid(child, 0)
        asks.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def exit_code(child: int) -> int | None:
    """Of a command in the background; None while it runs."""
    if child not in ended:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == 0:
            return None
        ended[child] = os.waitstatus_to_exitcode(status)
    return ended[child]


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


def load_maps() -> None:
    """Load the checkout's maps once; other maps, such as those that a test writes, are loaded where they are used."""
    ready: dict[map_files.MapEntry, Encoder] = {}
    load_entry = map_files.load_entry
    for entry in map_files.MapFiles().list():
        with contextlib.suppress(LeafgateError):
            ready[entry] = load_entry(entry)
    map_files.load_entry = lambda entry: ready[entry] if entry in ready else load_entry(entry)


def run_to_end() -> int:
    """Run the command; return its exit code."""
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    load_maps()
    for command, _ in COMMANDS.values():
        load_command(command)
    gc.freeze()
    sys.argv[:] = next_command(socket.socket(fileno=int(sys.argv[1])))
    code = run_to_end()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # freeing the maps would take longer than most commands
