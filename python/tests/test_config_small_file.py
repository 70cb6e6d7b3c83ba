from pathlib import Path

import pytest

from leafgate.config.small_file import MAX_FILE_BYTES, Unreadable, read_small_file


def test_a_small_text_is_read_without_its_mark(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfgr\xc3\xbcn\n")
    assert read_small_file(tmp_path / "f") == "grün\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"s3cret\xff", "is not UTF-8 text"), (b"x" * (MAX_FILE_BYTES + 1), "is larger than")],
)
def test_other_content_is_refused_and_not_shown(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(Unreadable, match=said) as raised:
        read_small_file(tmp_path / "f")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", ["none", ".", "a\x00b"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        read_small_file(tmp_path / name)
