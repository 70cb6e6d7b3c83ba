"""A file is believed only while it is the very file that was hashed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leafgate.model.errors import MapHashMismatchError, MapUnreachableError
from leafgate.model.leaf import digest_of
from leafgate.storage.proved_files import ProvedFiles

RAW = b"some bytes" * 1000
DIGEST = digest_of(RAW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(RAW)
    return file


def test_a_proved_file_opens_at_its_beginning(path: Path) -> None:
    files = ProvedFiles(max_bytes=len(RAW))
    assert files.open(path, DIGEST) is None
    files.prove(path, DIGEST)
    for _ in range(2):
        file = files.open(path, DIGEST)
        assert file is not None
        with file:
            assert file.read() == RAW


def test_a_replaced_file_is_no_longer_believed(path: Path, tmp_path: Path) -> None:
    files = ProvedFiles(max_bytes=len(RAW))
    files.prove(path, DIGEST)
    other = tmp_path / "other"
    other.write_bytes(RAW[::-1])
    os.replace(other, path)
    assert files.open(path, DIGEST) is None
    with pytest.raises(MapHashMismatchError):
        files.prove(path, DIGEST)


def test_a_rewritten_file_is_no_longer_believed(path: Path) -> None:
    files = ProvedFiles(max_bytes=len(RAW))
    files.prove(path, DIGEST)
    path.write_bytes(RAW[:-1])
    assert files.open(path, DIGEST) is None


def test_the_proof_is_for_one_digest_only(path: Path) -> None:
    files = ProvedFiles(max_bytes=len(RAW))
    files.prove(path, DIGEST)
    assert files.open(path, digest_of(b"")) is None


def test_a_file_that_goes_away(path: Path) -> None:
    files = ProvedFiles(max_bytes=len(RAW))
    files.prove(path, DIGEST)
    path.unlink()
    assert files.open(path, DIGEST) is None
    with pytest.raises(MapUnreachableError):
        files.prove(path, DIGEST)


def test_wrong_bytes_name_both_digests(path: Path) -> None:
    with pytest.raises(MapHashMismatchError) as caught:
        ProvedFiles(max_bytes=len(RAW)).prove(path, digest_of(b""))
    assert (caught.value.expected, caught.value.found) == (digest_of(b""), DIGEST)


def test_a_file_beyond_the_limit(path: Path) -> None:
    with pytest.raises(MapUnreachableError, match="limit"):
        ProvedFiles(max_bytes=len(RAW) - 1).prove(path, DIGEST)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(MapUnreachableError):
        ProvedFiles(max_bytes=10).prove(tmp_path, DIGEST)
