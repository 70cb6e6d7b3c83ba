"""Tokens and their hashes: nothing but the right secret fits, every entry is compared, guesses are bounded."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.model.errors import ConfigError
from leafgate.server.auth import bearer_tokens
from leafgate.server.auth.bearer_tokens import (
    MAX_WAITING,
    BearerTokens,
    ScryptHash,
    Sha256Hash,
    TokenEntry,
    TooManyGuessesError,
    hash_secret,
    new_token,
    read_hash,
)

pytestmark = pytest.mark.anyio

SALT = b"0123456789abcdef"
compare = hmac.compare_digest


def entry(name: str, secret: str) -> TokenEntry:
    return TokenEntry(name, read_hash(hash_secret(secret), "here"))


def cheap(name: str, secret: str) -> TokenEntry:
    """A scrypt hash that costs little, for tests only: a configuration may not hold it."""
    digest = hashlib.scrypt(secret.encode(), salt=SALT, n=2, r=1, p=1, dklen=32)
    return TokenEntry(name, ScryptHash(2, 1, 1, SALT, digest))


async def name_of(tokens: BearerTokens, secret: str) -> str | None:
    found = await tokens.find(secret)
    return None if found is None else found.name


def test_a_new_token_is_new_and_long() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(len(base64.urlsafe_b64decode(token.removeprefix("lg_") + "=")) == 32 for token in made)


async def test_a_token_is_found_by_its_hash_only() -> None:
    ann, ben = new_token(), new_token()
    tokens = BearerTokens([entry("ann", ann), entry("ben", ben)])
    assert await name_of(tokens, ann) == "ann"
    assert await name_of(tokens, ben) == "ben"
    for wrong in ("", ann[:-1], f"{ann}x", ann.upper(), ann.encode().hex(), hash_secret(ann), "\udcff", "é"):
        assert await name_of(tokens, wrong) is None
    assert await name_of(BearerTokens([]), ann) is None


async def test_a_secret_that_a_person_chose_gets_a_slow_hash() -> None:
    chosen = "correct-horse-battery"
    hashed = hash_secret(chosen)
    assert hashed.startswith("scrypt:32768:8:1:")
    assert hashed != hash_secret(chosen)  # a salt of its own each time
    tokens = BearerTokens([TokenEntry("ann", read_hash(hashed, "here"))])
    assert await name_of(tokens, chosen) == "ann"
    assert await name_of(tokens, "correct-horse-batterz") is None


@pytest.mark.parametrize("place", [0, 1, 2, None])
@pytest.mark.parametrize("make", [entry, cheap])
async def test_every_entry_is_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, place: int | None, make: Any
) -> None:
    secrets = [new_token() for _ in range(3)]
    tokens = BearerTokens([make(str(number), secret) for number, secret in enumerate(secrets)])
    compared: list[tuple[int, int]] = []

    def noting(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(bearer_tokens.hmac, "compare_digest", noting)
    found = await name_of(tokens, new_token() if place is None else secrets[place])
    assert found == (None if place is None else str(place))
    assert compared == [(32, 32)] * 3


async def test_a_slow_hash_is_computed_once_for_a_client_that_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = BearerTokens([cheap("ann", "her secret")])
    counted = []
    monkeypatch.setattr(ScryptHash, "fits", lambda self, given: counted.append(given) or given == b"her secret")
    for _ in range(3):
        assert await name_of(tokens, "her secret") == "ann"
    assert len(counted) == 1
    for _ in range(3):
        assert await name_of(tokens, "not hers") is None
    assert len(counted) == 4


async def test_too_many_guesses_are_turned_away() -> None:
    slow = read_hash(hash_secret("a chosen one"), "here")
    tokens = BearerTokens([TokenEntry("ann", slow)])
    turned_away = 0

    async def guess(number: int) -> None:
        nonlocal turned_away
        try:
            assert await tokens.find(f"guess {number}") is None
        except TooManyGuessesError:
            turned_away += 1

    async with anyio.create_task_group() as group, tokens._one_at_a_time:  # no check begins before the block ends
        for number in range(MAX_WAITING + 5):
            group.start_soon(guess, number)
        await anyio.wait_all_tasks_blocked()
        assert turned_away == 5
    assert turned_away == 5
    assert await name_of(tokens, "a chosen one") == "ann"


async def test_the_same_secret_is_checked_once_however_many_bring_it() -> None:
    """As after a reload: what was remembered is gone, and a busy client is there with all its requests."""
    tokens = BearerTokens([TokenEntry("ann", read_hash(hash_secret("a chosen one"), "here"))])
    found: list[str | None] = []

    async def come(secret: str) -> None:
        found.append(await name_of(tokens, secret))

    async with anyio.create_task_group() as group:
        for _ in range(3 * MAX_WAITING):
            group.start_soon(come, "a chosen one")
            group.start_soon(come, "another one")
    assert sorted(map(str, found)) == ["None"] * 3 * MAX_WAITING + ["ann"] * 3 * MAX_WAITING


async def test_who_hangs_up_leaves_the_others_with_an_answer() -> None:
    tokens = BearerTokens([TokenEntry("ann", read_hash(hash_secret("a chosen one"), "here"))])
    found: list[str | None] = []

    async def come(scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await name_of(tokens, "a chosen one"))

    first, second = anyio.CancelScope(), anyio.CancelScope()
    async with anyio.create_task_group() as group, tokens._one_at_a_time:  # no check begins before the block ends
        for scope in (first, second):
            group.start_soon(come, scope)
            await anyio.wait_all_tasks_blocked()
        first.cancel()
    assert found == ["ann"]


async def test_guessing_keeps_nobody_out_who_has_a_token_of_ours() -> None:
    ann = new_token()
    tokens = BearerTokens([entry("ann", ann), entry("ben", "a chosen one")])

    async def guess(number: int) -> None:
        assert await tokens.find(f"guess {number}") is None

    async with anyio.create_task_group() as group, tokens._one_at_a_time:  # no check begins before the block ends
        for number in range(MAX_WAITING):
            group.start_soon(guess, number)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(TooManyGuessesError):
            await tokens.find("one more")
        assert await name_of(tokens, ann) == "ann"


GOOD_SCRYPT = f"scrypt:16384:8:1:{base64.b64encode(SALT).decode()}:{base64.b64encode(bytes(32)).decode()}"


def test_hashes_are_read() -> None:
    assert read_hash("sha256:" + "0f" * 32, "here") == Sha256Hash(b"\x0f" * 32)
    assert read_hash(GOOD_SCRYPT, "here") == ScryptHash(16384, 8, 1, SALT, bytes(32))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lg_my-own-token-in-the-file",
        "0f" * 32,
        "sha256:" + "0f" * 31,
        "sha256:" + "0F" * 32,
        "sha256:" + "0f" * 32 + "\n",
        "md5:" + "0f" * 16,
        GOOD_SCRYPT.replace("16384", "8192"),
        GOOD_SCRYPT.replace("16384", "16385"),
        GOOD_SCRYPT.replace("16384", "999999999"),
        GOOD_SCRYPT.replace(":8:", ":0:"),
        GOOD_SCRYPT.replace(":8:", ":512:"),
        GOOD_SCRYPT.replace(":1:", ":99:"),
        GOOD_SCRYPT.replace(base64.b64encode(SALT).decode(), "c2FsdA=="),
        GOOD_SCRYPT[:-8],
        GOOD_SCRYPT.replace("=", "*"),
    ],
)
def test_a_bad_hash_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_hash(text, "auth.tokens[0].hash")
    assert str(raised.value).startswith("auth.tokens[0].hash: ")
    assert not text or text not in str(raised.value)


@given(st.text(max_size=40))
def test_only_the_same_secret_fits(other: str) -> None:
    secret = "lg_" + "a" * 43
    assert read_hash(hash_secret(secret), "here").fits(other.encode("utf-8", "surrogatepass")) == (other == secret)
