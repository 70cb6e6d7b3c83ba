from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from leafgate.firewall.screen import choose_withheld, digest
from leafgate.storage.map_files import MapFiles

CL100K = MapFiles().load("openai/cl100k_base")


def words(text: str) -> int:
    return len(text.split())


def test_what_fits_stays() -> None:
    assert choose_withheld(["one two", "three"], words, 3) == {}


def test_the_largest_is_withheld_first_and_only_as_many_as_needed() -> None:
    texts = ["a " * 5, "b " * 50, "c " * 20]
    assert list(choose_withheld(texts, words, 30)) == [1]
    assert sorted(choose_withheld(texts, words, 10)) == [1, 2]


def test_of_equals_the_first_is_withheld() -> None:
    assert list(choose_withheld(["x " * 9, "y " * 9], words, 10)) == [0]


def test_a_digest_says_where_the_rest_is(count: Callable[[str], int]) -> None:
    text = "\n".join(f"line {n}" for n in range(1, 2001))
    (withheld,) = choose_withheld([text], count, 800).values()
    short = digest(withheld, "h1", count, 800)
    assert "2000 lines" in short
    assert '"handle":"h1"' in short
    assert short.splitlines()[1] == "line 1"
    assert short.splitlines()[-1] == "line 2000"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=3000), min_size=1, max_size=60).map("\n".join), st.integers(120, 900))
def test_a_digest_fits_and_is_the_same_every_time(text: str, budget: int) -> None:
    def count(part: str) -> int:
        return len(CL100K.encode(part.encode("utf-8", "replace").decode()))

    withheld = choose_withheld([text], count, 0).get(0)
    if withheld is None:
        return
    short = digest(withheld, "0" * 24, count, budget)
    assert short == digest(withheld, "0" * 24, count, budget)
    assert count(short) <= budget + 120
