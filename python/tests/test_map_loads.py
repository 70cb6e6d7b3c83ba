"""One load per key however many ask, other keys meanwhile, failures for a while, and no more kept than allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from leafgate.model.errors import MapInvalidError, MapUnreachableError
from leafgate.storage.map_loads import MapLoads

PATIENCE = 10


class Gate:
    """A load that waits until it is opened, and counts how often it ran."""

    def __init__(self, result: Any = "loaded") -> None:
        self.runs = 0
        self.begun = threading.Event()
        self.opened = threading.Event()
        self._result = result

    def __call__(self) -> Any:
        self.runs += 1
        self.begun.set()
        assert self.opened.wait(PATIENCE)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def in_threads(number: int, work: Callable[[], Any]) -> tuple[list[threading.Thread], list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads, results


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def fail(error: BaseException) -> Callable[[], Any]:
    def load() -> Any:
        raise error

    return load


def never() -> Any:
    raise AssertionError("this must not be loaded")


def test_many_ask_and_one_loads() -> None:
    loads: MapLoads[object] = MapLoads()
    gate = Gate(object())
    threads, found = in_threads(12, lambda: loads.get("a", gate))
    gate.begun.wait(PATIENCE)
    gate.opened.set()
    join(threads)
    assert gate.runs == 1
    assert len(found) == 12
    assert len(set(map(id, found))) == 1
    assert loads.get("a", never) is found[0]


def test_all_who_wait_hear_of_a_failure() -> None:
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60)
    gate = Gate(MapInvalidError("broken"))
    threads, found = in_threads(6, lambda: loads.get("a", gate))
    gate.begun.wait(PATIENCE)
    gate.opened.set()
    join(threads)
    assert gate.runs == 1
    assert [str(error) for error in found] == ["broken"] * 6


def test_another_key_is_not_held_up() -> None:
    loads: MapLoads[str] = MapLoads()
    gate = Gate()
    threads, _ = in_threads(1, lambda: loads.get("slow", gate))
    gate.begun.wait(PATIENCE)
    assert loads.get("quick", lambda: "here") == "here"
    assert loads.ready("slow") is None
    gate.opened.set()
    join(threads)
    assert loads.ready("slow") == "loaded"


def test_a_failure_is_remembered_for_a_while() -> None:
    clock = HandClock()
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60, clock=clock)
    with pytest.raises(MapInvalidError, match="broken"):
        loads.get("a", fail(MapInvalidError("broken")))
    clock.now = 59.5
    assert loads.retry_after("a") == pytest.approx(0.5)
    with pytest.raises(MapInvalidError, match="broken"):
        loads.get("a", never)
    assert loads.get("b", lambda: "other") == "other"
    clock.now = 60
    assert loads.retry_after("a") == 0
    assert loads.get("a", lambda: "mended") == "mended"


def test_a_remembered_failure_does_not_grow() -> None:
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60)

    def depth() -> int:
        with pytest.raises(MapInvalidError) as caught:
            loads.get("a", fail(MapInvalidError("broken")))
        return len(caught.traceback)

    depth()
    assert depth() == depth()


def test_without_a_memory_for_failures_the_next_one_tries_again() -> None:
    loads: MapLoads[str] = MapLoads()
    with pytest.raises(MapInvalidError):
        loads.get("a", fail(MapInvalidError("broken")))
    assert loads.retry_after("a") == 0
    assert loads.get("a", lambda: "fine") == "fine"


def test_a_panic_reaches_those_who_wait() -> None:
    class Panic(BaseException):
        pass

    with pytest.raises(Panic):
        MapLoads[str]().get("a", fail(Panic()))


def test_too_slow_is_unreachable_and_not_started_twice() -> None:
    clock = HandClock()
    loads: MapLoads[str] = MapLoads(wait_seconds=0.01, remember_failure_seconds=60, clock=clock)
    gate = Gate()
    with pytest.raises(MapUnreachableError, match=r"within 0\.01 s"):
        loads.get("a", gate)
    with pytest.raises(MapUnreachableError, match="within"):
        loads.get("a", never)
    clock.now = 61
    with pytest.raises(MapUnreachableError, match="within"):
        loads.get("a", gate)
    assert gate.runs == 1


def test_what_comes_late_is_kept() -> None:
    loads: MapLoads[str] = MapLoads(wait_seconds=0.01, remember_failure_seconds=60)
    gate = Gate()
    with pytest.raises(MapUnreachableError):
        loads.get("a", gate)
    landed = threading.Event()
    gate.opened.set()
    for _ in range(PATIENCE * 100):
        if loads.ready("a") is not None:
            break
        landed.wait(0.01)
    assert loads.get("a", never) == "loaded"
    assert loads.retry_after("a") == 0


def test_the_longest_unused_goes_first() -> None:
    loads: MapLoads[str] = MapLoads(keep=2)
    for key in ("a", "b"):
        loads.get(key, lambda: "x")
    loads.get("a", never)
    loads.get("c", lambda: "x")
    assert [loads.ready(key) for key in ("a", "b", "c")] == ["x", None, "x"]


def test_pinned_ones_stay_and_do_not_count() -> None:
    loads: MapLoads[str] = MapLoads(keep=1, pinned=["p", "q"])
    for key in ("p", "q", "a", "b"):
        loads.get(key, lambda: "x")
    assert [loads.ready(key) for key in ("p", "q", "a", "b")] == ["x", "x", None, "x"]


def test_nothing_is_kept_where_nothing_may_be() -> None:
    loads: MapLoads[str] = MapLoads(keep=0)
    assert loads.get("a", lambda: "first") == "first"
    assert loads.get("a", lambda: "second") == "second"


def test_clear_forgets() -> None:
    loads: MapLoads[str] = MapLoads(remember_failure_seconds=60)
    loads.get("a", lambda: "x")
    with pytest.raises(MapInvalidError):
        loads.get("b", fail(MapInvalidError("broken")))
    loads.clear()
    assert loads.get("a", lambda: "y") == "y"
    assert loads.get("b", lambda: "z") == "z"
