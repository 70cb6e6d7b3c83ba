"""Tokens that the operator handed out. In: hashes by name, a secret from a client. Out: whose it is, or nobody's.

Touches the system's randomness, and a worker thread for slow hashes. Nothing here keeps or writes a secret. Every entry
is compared, each in constant time: the time of an answer tells neither how much of a secret is right nor whose it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import anyio
from anyio import to_thread

from leafgate.model.errors import ConfigError

TOKEN_PREFIX: Final = "lg_"
TOKEN_BYTES: Final = 32
# The work that one guess at a chosen secret costs: 32 MiB, about 0.1 s.
SCRYPT_N: Final = 2**15
SCRYPT_R: Final = 8
SCRYPT_P: Final = 1
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


class SecretHash(Protocol):
    """A hash as it stands in a configuration."""

    @property
    def is_slow(self) -> bool: ...

    def fits(self, secret: bytes) -> bool: ...


@dataclass(frozen=True)
class Sha256Hash:
    """Enough for a secret that was drawn at random: there is nothing to guess."""

    digest: bytes
    is_slow: bool = False

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
    is_slow: bool = True

    def fits(self, secret: bytes) -> bool:
        return hmac.compare_digest(_scrypt(secret, self), self.digest)


@dataclass(frozen=True)
class TokenEntry:
    """One token: the principal it stands for, its hash, and the scopes it has (None: nothing was said)."""

    name: str
    hash: SecretHash
    scopes: tuple[str, ...] | None = None


class _Guess:
    """A secret whose slow hashes are being computed; whoever brings the same one waits for the same answer."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.was_answered = False
        self.found: TokenEntry | None = None


class BearerTokens:
    """All tokens. A slow hash that fitted is remembered, under a key that only this process has."""

    def __init__(self, entries: Sequence[TokenEntry]) -> None:
        self._quick = tuple(entry for entry in entries if not entry.hash.is_slow)
        self._slow = tuple(entry for entry in entries if entry.hash.is_slow)
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, TokenEntry] = OrderedDict()
        self._guesses: dict[bytes, _Guess] = {}
        self._one_at_a_time = anyio.Lock()

    def has_name(self, name: str) -> bool:
        """Whether one of the tokens stands for a principal of this name."""
        return any(entry.name == name for entry in (*self._quick, *self._slow))

    async def find(self, secret: str) -> TokenEntry | None:
        """The entry that a secret belongs to."""
        given = secret.encode("utf-8", "surrogatepass")
        # Whose secret fits a quick hash need not wait behind those who guess at slow ones.
        quick = _fitting(self._quick, given)
        if quick is not None or not self._slow:
            return quick
        mark = hmac.digest(self._key, given, "sha256")
        # A mark of 32 bytes that nobody outside can compute: how long its look-up takes tells nothing of a secret.
        found = self._known.get(mark) or await self._guessed(mark, given)
        if found is not None:
            self._remember(mark, found)
        return found

    async def _guessed(self, mark: bytes, given: bytes) -> TokenEntry | None:
        under_way = self._guesses.get(mark)
        if under_way is not None:
            await under_way.over.wait()
            # Whoever came first may have hung up before there was an answer.
            return under_way.found if under_way.was_answered else await self._guessed(mark, given)
        if len(self._guesses) >= MAX_WAITING:
            raise TooManyGuessesError
        guess = self._guesses[mark] = _Guess()
        try:
            async with self._one_at_a_time:
                guess.found = await to_thread.run_sync(_fitting, self._slow, given)
                guess.was_answered = True
                return guess.found
        finally:
            del self._guesses[mark]
            guess.over.set()

    def _remember(self, mark: bytes, entry: TokenEntry) -> None:
        self._known[mark] = entry
        self._known.move_to_end(mark)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _fitting(entries: Sequence[TokenEntry], given: bytes) -> TokenEntry | None:
    """Every entry is looked at, whether or not one has been found."""
    fitting = [entry for entry in entries if entry.hash.fits(given)]
    return fitting[0] if fitting else None


def new_token() -> str:
    """A token that was never used before."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def hash_secret(secret: str) -> str:
    """The hash of a secret as a configuration has it: fast for our own tokens, slow for whatever a person chose."""
    given = secret.encode("utf-8", "surrogatepass")
    if _OWN_TOKEN.fullmatch(secret):
        return f"sha256:{hashlib.sha256(given).hexdigest()}"
    salted = ScryptHash(SCRYPT_N, SCRYPT_R, SCRYPT_P, secrets.token_bytes(SALT_BYTES), b"")
    digest = base64.b64encode(_scrypt(given, salted)).decode()
    return f"scrypt:{salted.n}:{salted.r}:{salted.p}:{base64.b64encode(salted.salt).decode()}:{digest}"


def read_hash(text: str, where: str) -> SecretHash:
    """A hash from a configuration; a ConfigError that does not repeat it, because it may be a secret put there."""
    plain = _SHA256.fullmatch(text)
    if plain is not None:
        return Sha256Hash(bytes.fromhex(plain[1]))
    slow = _SCRYPT.fullmatch(text)
    if slow is not None:
        return _read_scrypt(slow, where)
    raise ConfigError(f"{where}: not a hash; `leafgate token new NAME` makes a token and its hash")


def _read_scrypt(found: re.Match[str], where: str) -> ScryptHash:
    n, r, p = (int(found[place]) for place in (1, 2, 3))
    try:
        salt, digest = (base64.b64decode(found[place], validate=True) for place in (4, 5))
    except binascii.Error:
        raise ConfigError(f"{where}: the salt and the digest of a scrypt hash are base64") from None
    is_power = n > 1 and n & (n - 1) == 0
    if not is_power or r < 1 or p < 1 or p > 16 or 128 * n * r > MAX_SCRYPT_MEMORY or n < 2**14:
        raise ConfigError(f"{where}: the costs of this scrypt hash are not usable; `leafgate token hash` makes one")
    if len(salt) < SALT_BYTES or len(digest) != 32:
        raise ConfigError(f"{where}: a scrypt hash has a salt of {SALT_BYTES} bytes or more and a digest of 32")
    return ScryptHash(n, r, p, salt, digest)


def _scrypt(secret: bytes, hashed: ScryptHash) -> bytes:
    return hashlib.scrypt(
        secret, salt=hashed.salt, n=hashed.n, r=hashed.r, p=hashed.p, maxmem=2 * MAX_SCRYPT_MEMORY, dklen=32
    )
