"""Tokens that the operator gave out: their hashes by name, and the check of a secret from a client.

No secret is stored or logged. Slow hashes are computed in a worker thread. Every entry is compared, each in constant
time: the time of an answer reveals neither how much of a secret is right nor whose it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio import to_thread
from cachetools import LRUCache

from leafgate.model.errors import ConfigError

TOKEN_PREFIX: Final = "lg_"
TOKEN_BYTES: Final = 32
# n, r and p: the work that one guess at a chosen secret costs, 32 MiB and about 0.1 s.
SCRYPT_COSTS: Final = (2**15, 8, 1)
MAX_SCRYPT_MEMORY: Final = 256 * 1024 * 1024
SALT_BYTES: Final = 16
# Guesses at chosen secrets wait for one thread; more than these are turned away.
MAX_WAITING: Final = 16
REMEMBERED: Final = 1_024

_OWN_TOKEN: Final = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")
_SHA256: Final = re.compile(r"sha256:([0-9a-f]{64})")
_SCRYPT: Final = re.compile(r"scrypt:([0-9]{1,9}):([0-9]{1,3}):([0-9]{1,3}):([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")


class TooManyGuessesError(Exception):
    """So many secrets are being checked that this one is not; it may be tried again."""


@dataclass(frozen=True)
class Sha256Hash:
    """Enough for a random secret, which cannot be guessed."""

    digest: bytes

    def fits(self, secret: bytes) -> bool:
        return hmac.compare_digest(hashlib.sha256(secret).digest(), self.digest)


@dataclass(frozen=True)
class ScryptHash:
    """For a secret that a person chose: every guess costs time and memory."""

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def compute(self, secret: bytes) -> bytes:
        cost = {"n": self.n, "r": self.r, "p": self.p, "maxmem": 2 * MAX_SCRYPT_MEMORY}
        return hashlib.scrypt(secret, salt=self.salt, dklen=32, **cost)

    def fits(self, secret: bytes) -> bool:
        return hmac.compare_digest(self.compute(secret), self.digest)


SecretHash = Sha256Hash | ScryptHash


@dataclass(frozen=True)
class TokenEntry:
    """One token: the principal it stands for, its hash, and its scopes; None if none were configured."""

    name: str
    hash: SecretHash
    scopes: tuple[str, ...] | None = None


@dataclass
class _Guess:
    """A secret whose slow hashes are being computed; requests with the same secret wait for the same answer."""

    over: anyio.Event = field(default_factory=anyio.Event)
    was_answered: bool = False
    entry: TokenEntry | None = None


class BearerTokens:
    """All tokens. A slow hash that fitted is remembered, under a key that only this process has."""

    def __init__(self, entries: Sequence[TokenEntry]) -> None:
        self._quick = tuple(entry for entry in entries if isinstance(entry.hash, Sha256Hash))
        self._slow = tuple(entry for entry in entries if isinstance(entry.hash, ScryptHash))
        self._key = secrets.token_bytes(32)
        self._recent: LRUCache[bytes, TokenEntry] = LRUCache(REMEMBERED)
        self._guesses: dict[bytes, _Guess] = {}
        self._one_at_a_time = anyio.Lock()

    def has_name(self, name: str) -> bool:
        return any(entry.name == name for entry in (*self._quick, *self._slow))

    async def find(self, secret: str) -> TokenEntry | None:
        """The entry that a secret belongs to."""
        secret_bytes = secret.encode("utf-8", "surrogatepass")
        # A caller whose secret fits a fast hash does not wait for callers that try slow ones.
        quick = _fitting(self._quick, secret_bytes)
        if quick is not None or not self._slow:
            return quick
        mark = hmac.digest(self._key, secret_bytes, "sha256")
        # A mark of 32 bytes that no client can compute: the time of its look-up reveals nothing about a secret.
        entry = self._recent.get(mark) or await self._compare_slowly(mark, secret_bytes)
        if entry is not None:
            self._recent[mark] = entry
        return entry

    async def _compare_slowly(self, mark: bytes, secret_bytes: bytes) -> TokenEntry | None:
        under_way = self._guesses.get(mark)
        if under_way is not None:
            await under_way.over.wait()
            # The first client may have disconnected before there was an answer.
            return under_way.entry if under_way.was_answered else await self._compare_slowly(mark, secret_bytes)
        if len(self._guesses) >= MAX_WAITING:
            raise TooManyGuessesError
        guess = self._guesses[mark] = _Guess()
        try:
            async with self._one_at_a_time:
                guess.entry = await to_thread.run_sync(_fitting, self._slow, secret_bytes)
                guess.was_answered = True
                return guess.entry
        finally:
            del self._guesses[mark]
            guess.over.set()


def _fitting(entries: Sequence[TokenEntry], secret_bytes: bytes) -> TokenEntry | None:
    """Every entry is compared, whether or not an earlier one fits."""
    fitting = [entry for entry in entries if entry.hash.fits(secret_bytes)]
    return fitting[0] if fitting else None


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def hash_secret(secret: str) -> str:
    """The hash of a secret for a configuration: fast for our own tokens, slow for a secret that a person chose."""
    secret_bytes = secret.encode("utf-8", "surrogatepass")
    if _OWN_TOKEN.fullmatch(secret):
        return f"sha256:{hashlib.sha256(secret_bytes).hexdigest()}"
    salted = ScryptHash(*SCRYPT_COSTS, secrets.token_bytes(SALT_BYTES), b"")
    digest = base64.b64encode(salted.compute(secret_bytes)).decode()
    return f"scrypt:{salted.n}:{salted.r}:{salted.p}:{base64.b64encode(salted.salt).decode()}:{digest}"


def read_hash(text: str, where: str) -> SecretHash:
    """A hash from a configuration; a ConfigError that does not repeat it, because it may be a secret put there."""
    if (plain := _SHA256.fullmatch(text)) is not None:
        return Sha256Hash(bytes.fromhex(plain[1]))
    if (slow := _SCRYPT.fullmatch(text)) is not None:
        return _read_scrypt(slow, where)
    raise ConfigError(f"{where}: not a hash; `leafgate token new NAME` makes a token and its hash")


def _read_scrypt(entry: re.Match[str], where: str) -> ScryptHash:
    n, r, p = (int(entry[place]) for place in (1, 2, 3))
    try:
        salt, digest = (base64.b64decode(entry[place], validate=True) for place in (4, 5))
    except binascii.Error:
        raise ConfigError(f"{where}: the salt and the digest of a scrypt hash are base64") from None
    is_power = n > 1 and n & (n - 1) == 0
    if not is_power or r < 1 or p < 1 or p > 16 or 128 * n * r > MAX_SCRYPT_MEMORY or n < 2**14:
        raise ConfigError(f"{where}: the costs of this scrypt hash are not usable; `leafgate token hash` makes one")
    if len(salt) < SALT_BYTES or len(digest) != 32:
        raise ConfigError(f"{where}: a scrypt hash has a salt of {SALT_BYTES} bytes or more and a digest of 32")
    return ScryptHash(n, r, p, salt, digest)
