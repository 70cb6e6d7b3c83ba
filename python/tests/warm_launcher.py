"""Runs a Python command in a fork of warm_process, and ends as it ends. See warm_python, which makes a program of this.

Imports as little as it can: it runs as often as the tests start servers, without site-packages.
"""

import json
import os
import signal
import socket
import sys

words = sys.argv[1:]
if not words or (words[0].startswith("-") and words[0] not in ("-c", "-m")):
    os.execv(sys.executable, [sys.executable, *words])

asks = socket.socket(socket.AF_UNIX)
asks.connect(os.path.join(os.path.dirname(sys.argv[0]), "socket"))
command = json.dumps({"words": words, "folder": os.getcwd(), "env": dict(os.environ)}).encode()
socket.send_fds(asks, [len(command).to_bytes(4, "big")], [0, 1, 2])
asks.sendall(command)
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, lambda number, _: asks.send(bytes([number])))
# The command's input and output end with the command.
nothing = os.open(os.devnull, os.O_RDWR)
for file in (0, 1, 2):
    os.dup2(nothing, file)

answer = b""
while answer.count(b"\n") < 2 and (part := asks.recv(64)):
    answer += part
code = int(answer.split()[1])
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
