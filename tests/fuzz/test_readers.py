"""The first inputs of `just fuzz`, the same ones every time."""

from __future__ import annotations

import pytest
from fuzzing import feed
from readers import READERS, Reader

INPUTS = 1_000


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_reader_answers_or_refuses(reader: Reader) -> None:
    assert feed(reader, INPUTS // len(READERS) + 1, seed=0) > 0


def test_a_reader_that_fails_is_found() -> None:
    broken = Reader("broken", READERS[0].inputs, lambda text: [][len(text)])
    with pytest.raises(IndexError):
        feed(broken, 10, seed=0)


def test_a_reader_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzzing.HANG_SECONDS", 0.05)

    def stuck(text: str) -> None:
        while True:
            pass

    with pytest.raises(AssertionError, match="no answer within"):
        feed(Reader("stuck", READERS[0].inputs, stuck), 1, seed=0)
