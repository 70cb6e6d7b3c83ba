"""The reader of pages: what is a block, how it wants to be run, and what is refused."""

from __future__ import annotations

import pytest
from page_blocks import Block, PageError, blocks_of


def test_blocks_in_order() -> None:
    page = "# Title\n\n```sh\na\nb  # c\n```\ntext\n```python\nd\n```\n"
    assert blocks_of(page) == [Block("sh", 3, "a\nb  # c\n"), Block("python", 8, "d\n")]


def test_a_page_without_blocks() -> None:
    assert blocks_of("# Title\n\n`inline` and <!-- a comment -->\n") == []


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("<!-- run: background -->", Block("sh", 2, "a\n", background=True)),
        ("<!-- run: in checkout -->", Block("sh", 2, "a\n", in_checkout=True)),
        ("<!-- run: background in checkout -->", Block("sh", 2, "a\n", background=True, in_checkout=True)),
        ("<!-- not run: needs a moon -->", Block("sh", 2, "a\n", not_run="needs a moon")),
        ("<!-- a remark -->", Block("sh", 2, "a\n")),
    ],
)
def test_comments(comment: str, expected: Block) -> None:
    assert blocks_of(f"{comment}\n```sh\na\n```\n") == [expected]


def test_a_comment_is_for_one_block() -> None:
    page = "<!-- not leafgate's: Prometheus -->\n\n```yaml\na: 1\n```\n```yaml\nb: 1\n```\n"
    assert [block.foreign for block in blocks_of(page)] == ["Prometheus", ""]


def test_no_run_in_the_fence() -> None:
    assert [block.not_run for block in blocks_of("```python no-run\na\n```\n")] == ["no-run"]


@pytest.mark.parametrize(
    "page",
    [
        "```sh\na\n",
        "```sh\na\n```sh\nb\n```\n",
        "```fortran\na\n```\n",
        "```sh quickly\na\n```\n",
        "<!-- run: twice -->\n```sh\na\n```\n",
        "<!-- run: background -->\n```python\na\n```\n",
        "<!-- run background -->\n```sh\na\n```\n",
        "<!-- not ran: later -->\n```sh\na\n```\n",
        "<!-- not run: -->\n```sh\na\n```\n",
        "<!-- not run: later -->\ntext\n```sh\na\n```\n",
        "<!-- not run: later -->\n",
    ],
)
def test_refused(page: str) -> None:
    with pytest.raises(PageError):
        blocks_of(page)
