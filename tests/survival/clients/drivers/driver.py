"""What the drivers in Python share: answer the runner's requests, one JSON object per line, with one library.

    {"open": {"url": …} or {"command": …, "args": […], "env": {…}}}   ->  {"tools": [names that the model would get]}
    {"call": name, "args": {…}}                                        ->  {"text": what the model would get}
    {"close": true}                                                    ->  {"closed": true}

A failure answers {"error": …}. Standard output belongs to the answers; what a library prints goes to standard error.
A driver must not be named as a package is: libraries would import it in the package's place.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import traceback
from types import SimpleNamespace


def serve(connect):
    """Run until the input ends. `connect(target)` is a context manager, async or not, of the tool names and a function
    from a name and arguments to the text, async or not. A target has `url`, or `command`, `args` and `env`.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def write(answer):
        print(json.dumps(answer), file=answers, flush=True)

    is_async = inspect.isasyncgenfunction(inspect.unwrap(connect))
    while (request := _read()) is not None:
        target = SimpleNamespace(**{"url": None, **request["open"]})
        try:
            # One event loop from open to close: sessions belong to the task that made them.
            asyncio.run(_converse(connect(target), write)) if is_async else _converse_plainly(connect(target), write)
            write({"closed": True})
        except BaseException as error:
            write(_describe(error))


async def _converse(session, write):
    async with session as (names, call):
        write({"tools": list(names)})
        while "call" in (request := await asyncio.to_thread(_read) or {}):
            try:
                write({"text": str(await call(request["call"], request["args"]))})
            except Exception as error:
                write(_describe(error))


def _converse_plainly(session, write):
    with session as (names, call):
        write({"tools": list(names)})
        while "call" in (request := _read() or {}):
            try:
                write({"text": str(call(request["call"], request["args"]))})
            except Exception as error:
                write(_describe(error))


def _read():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def _describe(error):
    traceback.print_exception(error)
    return {"error": f"{type(error).__name__}: {error}"[:2000]}
