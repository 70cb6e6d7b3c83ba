"""Decide whether a value is a secret: by the name it is assigned to, by its characters, and by what it cannot be.

A value is not a secret if it is a placeholder, a documented example, a word, an expression, a path, an id or a digest.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import zlib
from collections.abc import Iterable
from functools import lru_cache
from operator import sub
from typing import Final

from leafgate.clean.secrets import EXAMPLE_PARTS, EXAMPLES, NAMES

MARK: Final = b"[redacted:"


def _any(words: Iterable[str]) -> str:
    return "(?:" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + ")"


# Names

_NAME_OF_PASSWORD: Final = re.compile(rf"{_any(NAMES['password'])}|(?:^|[_.-])pass$|[a-z]pass$|(?:^|[_.-])pw$")
_AFTER_PASSWORD: Final = re.compile(
    r"[\d_-]{0,3}|s|[_-](?:db|bd|bdd|bazy|banco|base|admin|root|user|mail|smtp|wifi|wlan|ftp|prod|dev|test|staging|srv|server|app|api)"
    r"|[_-]?(?:value|plain|text|plaintext|confirm\w*|new|old|hint_secret|base64)"
)
_NAME_OF_KEY: Final = re.compile(rf"{_any(NAMES['key'])}[_. -]?key(?:s|_?base64|_?value|_?secret|_?b64|_?data|_?\d)?$")
_NAME_OF_SECRET: Final = re.compile(
    rf"{_any(NAMES['secret'])}(?:[_-]?(?:key|token|value|base64|access[_-]?key|string|phrase|key[_-]?base))?\d?$"
)
_NAME_OF_TOKEN: Final = re.compile(rf"{_any(NAMES['token'])}(?:[_-]?(?:secret|value|key))?\d?$|(?:^|_)pat$|^bearer$")
_NAME_OF_CODES: Final = re.compile(r"(?:recovery|backup|scratch|rescue|emergency)[_ -]?codes?$")
_NAME_OF_ANY_KEY: Final = re.compile(
    r"(?:[a-z0-9]{2}|^s)[_. -]?key(?:[_-]?(?:base64|b64|hex|pem))?$|(?:p12|pfx|jks|pkcs12|keystore)\w*$"
)
_NAME_OF_HEX_KEY: Final = re.compile(r"[a-z0-9]{2}[_. -]?key[_-]?hex$")
_FOREIGN_KEY: Final = r"(?:klucz|chave|clave|chiave|schluessel|sleutel)"
_NAME_OF_FOREIGN_KEY: Final = re.compile(
    rf"{_FOREIGN_KEY}[_-]?(?:api|priv\w*|pryw\w*|secret\w*|geheim)$|api[_-]?{_FOREIGN_KEY}$"
)
_NAME_OF_AUTH: Final = re.compile(r"(?:^|[^a-z])_?auth$")
_NAME_OF_OTHER: Final = re.compile(
    rf"(?:^|[_. -]){_any(NAMES['other'])}(?:[_. -](?:\w{{0,12}}[_-])?)?(?:token|key|secret|passw|auth$)"
    r"|continu\w*[_. -]?token|pagina\w*[_. -]?token|idempoten\w*[_. -]?(?:token|key)"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def name_type(name: str) -> str | None:
    """Return the type of secret that a variable, header or member of this name would hold, or None."""
    plain = _CAMEL.sub("_", name).lower().strip(" \t")
    if len(plain) > 120 or _NAME_OF_OTHER.search(plain):
        return None
    passwords = list(_NAME_OF_PASSWORD.finditer(plain))
    if passwords:
        return "password" if _AFTER_PASSWORD.fullmatch(plain[passwords[-1].end() :]) else None
    kinds = (
        ("api-key", _NAME_OF_KEY),
        ("secret", _NAME_OF_SECRET),
        ("token", _NAME_OF_TOKEN),
        ("basic-auth", _NAME_OF_AUTH),
        ("code", _NAME_OF_CODES),
        ("api-key", _NAME_OF_HEX_KEY),
        ("api-key", _NAME_OF_FOREIGN_KEY),
        ("key", _NAME_OF_ANY_KEY),
    )
    return next((kind for kind, pattern in kinds if pattern.search(plain)), None)


def type_of_kind(kind: str) -> str:
    """Return the type that a mark names for a secret that was found by its name."""
    return _TYPES.get(kind, kind)


_TYPES: Final = {"key": "api-key", "code": "recovery-code"}

# Values that are not secrets

_PLACEHOLDER: Final = re.compile(
    rb"<[^<>]*>|\$[A-Za-z_]\w*|\$\(.*|%[A-Za-z_]\w*%|%[sd]|%\(\w+\)s|\{(?![A-Za-z0-9+/]{40}).*\}|\[.*\]|\*+|#\{.*|@[\w.]+@"
    rb"|\$env:\w+|![A-Za-z]+(?: .*)?|<%.*%>|0x[0-9a-f]{1,8}"
    rb"|" + _any(NAMES["placeholder"]).encode() + rb"(?:[-_ .][A-Za-z]+)*+(?:[-_ .]?\d{0,4})"
    rb"|" + _any(NAMES["placeholder"]).encode() + rb"[A-Za-z()!]{0,16}"
    rb"(?:password|passwd|passwort|pass|pwd|secret|token|key)[0-9]{0,3}!?"
    rb"|" + _any(NAMES["word"]).encode() + rb"[:!?.,;*]*+|.*[-_](?:here|goes)",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip
_PLACEHOLDER_PART: Final = re.compile(
    rb"\*\*\*|[xX]{4}|\.\.\.|\xe2\x80\xa6|\xe2\x80\xa2|[$#{]\{|####|____|-----|\?\?\?|\{[A-Za-z_][\w.]*\}|0{6}"
    rb"|12345678|abcdefgh|deadbeef"
    rb"|(?i:placeholder|changeme|replace[-_ ]?me|redacted|insert[-_]|your[-_]|dummy|notreal|not-a-real|fake)",
)
_CODE: Final = re.compile(
    rb"[A-Za-z_][\w$]*(?:(?:\.|->|::|\?\.|!\.)[A-Za-z_][\w$]*)+[?!]?"  # config.token
    rb"|@?[A-Za-z_$][\w.]*(?:\(|\[|\{).*"  # get(...)
    rb"|[A-Za-z_]+(?:_[A-Za-z]+)+|[A-Z]+(?:_[A-Z0-9]+)+|[A-Za-z]+[?!]?"  # names of variables and types
)
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile(rb"(?:0x)?[0-9a-fA-F]+")
_SEPARATOR: Final = re.compile(rb"[-_./:+~=@#| ]+")
_WORDY: Final = re.compile(
    rb"[a-z]*(?:[A-Z][a-z]+){0,8}[A-Z]?|[A-Z]+|[0-9]{1,4}|v[0-9]{1,3}|[A-Za-z]{1,3}[0-9]{1,2}"
    rb"|[A-Za-z][0-9]{1,2}[A-Za-z]"
)
_LOCATION: Final = re.compile(
    rb"(?:https?|file|s3|gs|arn|urn|projects|secrets|vault|ref|env|op|aws|ssm|data|gcp|azure|keyring|keychain|bws|doppler)"
    rb"(?::|/).*|(?:/|\./|~/|\.\./|\\|[a-z]:\\).*|sha\d+[-:].*|\w+[-.\w]*/[-.\w/]+\.\w{1,5}|\$[0-9a-z]{1,8}\$.*|\{(?:SSHA|noop|bcrypt)\}.*"
    rb"|(?:[a-z][a-z0-9]*-)+[a-z0-9]{8,10}-[a-z0-9]{5}",  # a pod
    re.IGNORECASE,
)
_EXAMPLE_PART: Final = re.compile(b"|".join(map(re.escape, EXAMPLE_PARTS)))
_REPEAT: Final = re.compile(rb"(.)\1{5}|(..)\2{4}|(...)\3{3}", re.DOTALL)


def is_placeholder(value: bytes) -> bool:
    """Does this value stand for a secret, or for one that was removed?"""
    if value.startswith(MARK) or value in EXAMPLES:
        return True
    return _PLACEHOLDER_PART.search(value) is not None or _PLACEHOLDER.fullmatch(value) is not None


def is_example(value: bytes) -> bool:
    """Is this token one that a documentation prints?"""
    return value in EXAMPLES or _EXAMPLE_PART.search(value) is not None


def _is_sequence(value: bytes) -> bool:
    """Is this 1234567890abcdef or the like: does nearly every second character follow the one before it?"""
    steps = list(map(sub, value[1:], value))
    return steps.count(0) + steps.count(1) > 0.4 * len(value)


# Values that are

_NO_PASSWORD: Final = re.compile(
    rb"[A-Za-z]+[:?.,;*]+|[A-Za-z]+[(\[].*[)\]]|[0-9.,:%/+-]+|[0-9]+[a-zA-Z]{1,3}", re.DOTALL
)
_PASSWORD_MARK: Final = re.compile(rb"[!@#$%^&*?+~=]")
_KEY_CHARACTERS: Final = re.compile(rb"[A-Za-z0-9_+/=.~:!@#%^*?$|-]+")
_PLACEHOLDER_BODY: Final = re.compile(rb"(?i)your|xxxx|placeholder|dummy|redact|insert|[-_](?:here|token|key|test)\b")
# In a sentence: numbers with units, addresses, words, calls, hosts, options, codes such as ISO-8601
_NO_STRONG: Final = re.compile(
    rb"[0-9][0-9.,:/%-]*(?:[a-zA-Z]{1,9})?|[\w.+-]+@[\w-]+\.[\w.-]+|[A-Za-z]+[.:!?,;)]*|\w+\(.*|[\w-]+(?:\.[\w-]+)+(?:/.*)?"
    rb"|[a-z]+[A-Z]\w*[=:].*|[A-Za-z_]+=.*|-.*|[A-Z]{2,5}-?[0-9]+|[A-Za-z]+s?'.*",
    re.DOTALL,
)
_EXPRESSION: Final = re.compile(rb"^[{\[(]|\w[(\[{]|\]\.|\)\.")
_MIXED_WORD: Final = re.compile(rb"[A-Za-z]{2,}[0-9]{1,6}|(?:[A-Za-z]+[0-9]+){2,}[A-Za-z]*")


def looks_secret(kind: str, value: bytes, *, quoted: bool) -> bool:
    """Is this value a secret, given the kind that its name implies? Words, paths, expressions and ids are not."""
    if quoted and kind in ("password", "secret") and _is_long_phrase(value):
        return True
    is_other = is_placeholder(value) or is_example(value) or _LOCATION.fullmatch(value) or _PUBLIC.match(value)
    is_code = not quoted and _CODE.fullmatch(value) and not _is_long_mixed(value.rpartition(b".")[2])
    if is_other or is_code or kind == "password":
        return not is_other and not is_code and _looks_like_password(value)
    if kind == "basic-auth":
        return _looks_like_auth(value)
    if kind == "code":
        return len(value) >= 6 and _CODE_FORM.fullmatch(value) is not None
    if kind == "secret" and (looks_strict(value) or (quoted and _is_passphrase(value) and value[-2:].isdigit())):
        return True
    return _looks_like_key(kind, value)


def _looks_like_auth(value: bytes) -> bool:
    """Is the value that of a member "auth": user and password in base64 or with a slash, or a key?"""
    user, slash, password = value.partition(b"/")
    is_pair = slash != b"" and user.isalnum() and looks_strong(password)
    return is_pair or looks_like_basic_auth(value) or _is_long_random(value)


def _is_long_random(value: bytes) -> bool:
    return len(value) >= 20 and looks_random(value) and not _UUID.fullmatch(value)


def _is_long_mixed(value: bytes) -> bool:
    return len(value) >= 20 and looks_mixed(value)


def _looks_like_key(kind: str, value: bytes) -> bool:
    if _UUID.fullmatch(value):
        return kind != "key"
    if kind == "key":  # of a name that does not say what it opens: only what is clearly random
        is_clear = len(value) >= 20 and not _HEX.fullmatch(value) and looks_mixed(value.rstrip(b"="))
        return is_clear and looks_random(value)
    return looks_random(value)


def is_public(value: bytes) -> bool:
    """Does the value begin as keys that are made to be published?"""
    return _PUBLIC.match(value) is not None


_PUBLIC: Final = re.compile(rb"pk\.eyJ|pk_(?:live|test)_|npub1|phc_")  # publishable, whatever name they have
_CODE_FORM: Final = re.compile(rb"[A-Za-z]{0,12}[0-9][A-Za-z0-9-]{4,40}|[0-9a-f]{4,8}(?:-[0-9a-f]{4,8})+")
# Words joined by hyphens, and a number. Names of things in a system read alike, but for the words in them.
_PASSPHRASE: Final = re.compile(
    rb"(?:[A-Za-z]{3,12}[-_.+ ]){2,7}[0-9]{1,6}[!?]?|(?:[a-z]{1,12}-){5,8}[0-9]{2,6}"
    rb"|[0-9]{1,6}(?:[-_.+][A-Za-z]{3,12}){3,7}"
)


def _is_passphrase(value: bytes) -> bool:
    if _PASSPHRASE.fullmatch(value) is None:
        return False
    words = re.split(rb"[-_.+ ]", value.lower())
    return _SYSTEM_WORDS.isdisjoint(words if len(words) < _LONG_PHRASE else set(words) - _FUNCTIONS)


def _is_long_phrase(value: bytes) -> bool:
    """Are these enough words and a number not to be a placeholder, even behind "the" or "my"?"""
    is_long = value.count(b"-") >= _LONG_PHRASE - 1 and value[-1:].isdigit()
    return is_long and value.partition(b"-")[0] not in _PLACEHOLDERS and _is_passphrase(value)


_PLACEHOLDERS: Final = frozenset(word.encode() for word in NAMES["placeholder"]) - {b"the", b"my", b"some"}
_LONG_PHRASE: Final = 6  # words from which articles and the like may stand between them


_SYSTEM_WORDS: Final = frozenset(word.encode() for word in NAMES["system"])
_SENTENCE: Final = frozenset(
    b"the a an is are your to of enter please must be and or for with in not password passwords passwort forgot reset "
    b"new confirm current change field required show hide login account invalid incorrect wrong at least characters "
    b"this that use used user if it should can will may has have no on by as from when your with been then into like "
    b"only over some such than them they were what also each here just more most very well work".split()
)


_FUNCTIONS: Final = frozenset(b"the my of to for with in on not is and or a at".split())
_LABELS: Final = frozenset(
    b"your enter please must be password passwords passwort forgot reset new confirm current change field required "
    b"show hide login account invalid incorrect wrong least use used user if it should can will may have been also "
    b"each just some what work mindestens zeichen caracteres characters chars minimum maximum rules digits".split()
)


def _looks_like_password(value: bytes) -> bool:
    if not 5 <= len(value) <= 256:
        return False
    if b" " in value:
        return _is_phrase(value)
    kinds = _count_classes(value)
    if not kinds.digits and not kinds.marks:
        return _is_app_password(value)
    if all(_WORDY.fullmatch(part) for part in _SEPARATOR.split(value)) and _SEPARATOR.search(value):
        return _is_passphrase(value) or _joins_words(value, kinds) or looks_human(value)
    if _NO_PASSWORD.fullmatch(value):
        return False
    return kinds.count() >= 2 and bits_per_byte(value) * len(value) >= 12


def looks_human(value: bytes) -> bool:
    """Do these look like words that a person joined: an underscore or a full stop, then digits, no system names?"""
    if is_placeholder(value) or is_example(value) or not _SYSTEM_WORDS.isdisjoint(_WORDS.findall(value.lower())):
        return False
    return _HUMAN.fullmatch(value) is not None


_HUMAN: Final = re.compile(
    rb"(?:[a-z]{1,12}_){0,3}[A-Za-z][a-z]{3,12}_[0-9]{2,4}|(?:[a-z]{1,12}_){1,3}[A-Za-z]?[a-z]{2,12}[0-9]{1,4}"
    rb"|[A-Za-z][a-z]{5,12}[#!*?%&$][0-9]{1,4}|[A-Z][a-z]{3,12}[.-][A-Za-z][a-z]{3,12}[0-9]{1,4}"
)


def _is_name_of_two(value: bytes) -> bool:
    """Are these two or more words, each with a capital, and a number?"""
    return _CAPITALS.fullmatch(value) is not None and _SYSTEM_WORDS.isdisjoint(_WORDS.findall(value.lower()))


_CAPITALS: Final = re.compile(rb"(?:[A-Z][a-z]{3,12}[._]){1,3}[A-Z][a-z]{3,12}[0-9]{1,4}")


def looks_like_phrase(value: bytes) -> bool:
    """Are these words in quotes a password, and not a label or an instruction?"""
    words = value.lower().split()
    if (
        not 2 <= len(words) <= 10
        or not _LABELS.isdisjoint(words)
        or not _SYSTEM_WORDS.difference(_FUNCTIONS).isdisjoint(words)
    ):
        return False
    return not is_placeholder(value) and all(_PHRASE_WORD.fullmatch(word) for word in words)


_PHRASE_WORD: Final = re.compile(rb"[a-z0-9!?'-]{1,16}")


def looks_like_url_key(value: bytes) -> bool:
    """Is a parameter of an address a key? Short ones must mix cases and digits; digests of 32 digits are keys too."""
    if is_placeholder(value) or is_example(value) or _UUID.fullmatch(value):
        return False
    if len(value) >= 24:
        return looks_random(value) and (looks_mixed(value.rstrip(b"=")) or len(value) == 32)
    return looks_mixed(value) and len(_RUNS.findall(value)) >= max(5, len(value) // 3)


_RUNS: Final = re.compile(rb"[a-z]+|[A-Z]+|[0-9]+")


def _is_phrase(value: bytes) -> bool:
    """Are these four words in lower case or more, or is it a password with blanks in it?"""
    words = value.lower().split()
    if not _SENTENCE.isdisjoint(words) or not _SYSTEM_WORDS.isdisjoint(words):
        return False
    is_lower = len(words) >= 4 and all(word.isalpha() and len(word) > 2 for word in words) and value.islower()
    return is_lower or (len(words) <= 6 and looks_strict(value.replace(b" ", b"")))


def _joins_words(value: bytes, kinds: _Classes) -> bool:
    """Are these words in both cases, with a mark that names and paths do not have, or with a number?"""
    if not kinds.lowers or not kinds.uppers or not _SYSTEM_WORDS.isdisjoint(_WORDS.findall(value.lower())):
        return False
    return _PASSWORD_MARK.search(value) is not None or kinds.digits > 0


def _is_app_password(value: bytes) -> bool:
    """Are these four groups of four letters, as mail providers make them for programs?"""
    return _APP_PASSWORD.fullmatch(value) is not None


_WORDS: Final = re.compile(rb"[a-z]+")
_APP_PASSWORD: Final = re.compile(rb"[a-z]{4}(?:-[a-z]{4}){3}")


class _Classes:
    __slots__ = ("digits", "lowers", "marks", "uppers")

    def __init__(self, lowers: int, uppers: int, digits: int, marks: int) -> None:
        self.lowers, self.uppers, self.digits, self.marks = lowers, uppers, digits, marks

    def count(self) -> int:
        return (self.lowers > 0) + (self.uppers > 0) + (self.digits > 0) + (self.marks > 0)


_LOWER: Final = bytes(range(97, 123))
_UPPER: Final = bytes(range(65, 91))
_DIGIT: Final = b"0123456789"
_JOINING: Final = b"_.-/"


def _count_classes(value: bytes) -> _Classes:
    size = len(value)
    without_lower = value.translate(None, _LOWER)
    without_upper = without_lower.translate(None, _UPPER)
    without_digit = without_upper.translate(None, _DIGIT)
    marks = without_digit.translate(None, _JOINING)
    return _Classes(
        size - len(without_lower),
        len(without_lower) - len(without_upper),
        len(without_upper) - len(without_digit),
        len(marks),
    )


# Ids of advisories, parameters of hashes, prompts of shells, users at hosts
_OTHER_FORM: Final = re.compile(
    rb"[A-Z]{2,8}-[0-9]+(?:[-:][0-9:-]+)?|[A-Z]{2,8}(?:-[A-Za-z0-9]{4}){3}|[A-Za-z0-9_-]+\$[0-9]+|[a-z]+-[0-9.]+[$#%]"
    rb"|[a-z0-9_.-]+@[a-z0-9]+(?:-[a-z0-9]+)+"
)


def looks_strong(value: bytes) -> bool:
    """Is a word of a sentence a password? It has three kinds of characters, or letters and digits mixed."""
    if is_placeholder(value) or is_example(value) or _LOCATION.fullmatch(value) or _OTHER_FORM.fullmatch(value):
        return False
    if b"\\u" in value:
        value = _ESCAPED_LETTER.sub(b"a", value)
    if (
        _is_passphrase(value)
        or _is_name_of_two(value)
        or (looks_random(value) and not _UUID.fullmatch(value) and b":" not in value)
    ):
        return True
    if _NO_STRONG.fullmatch(value) or _EXPRESSION.search(value):
        return False
    kinds = _count_classes(value)
    if kinds.count() >= 3 and kinds.digits + kinds.marks:
        return len(value) >= 7 and (kinds.digits > 0 or kinds.marks > 1)
    if kinds.digits and (kinds.lowers or kinds.uppers) and not kinds.marks:
        return len(value) >= 7 and _MIXED_WORD.fullmatch(value) is not None
    return kinds.count() >= 2 and kinds.marks > 0 and kinds.digits > 0 and len(value) >= 8


_ESCAPED_LETTER: Final = re.compile(rb"\\u[0-9a-fA-F]{4}")  # of a text in JSON


def looks_strict(value: bytes) -> bool:
    """Is a word a password wherever it stands? Letters and digits change more often in it than names need, or it has
    a mark that names do not have."""
    if len(value) < 8 or not looks_strong(value) or _HEX.fullmatch(value) or not value.isascii():
        return False
    kinds = _count_classes(value)
    if not kinds.digits or not kinds.lowers + kinds.uppers or _CODE_LIKE.search(value):
        return False
    if kinds.marks and _PASSWORD_MARK.search(value):
        return True
    return kinds.lowers > 0 and kinds.uppers > 0 and _CHANGES.search(value) is not None


_CHANGES: Final = re.compile(rb"[A-Za-z][0-9]{2,}[A-Za-z]|[A-Za-z][0-9]+[A-Za-z][A-Za-z-]*[0-9]")
_CODE_LIKE: Final = re.compile(rb"[(){}/\[\]<>|\\\"'`;,]|://|^[@#/.~%&?=+-]|=[A-Za-z]|\+\+|[a-z]@[a-z]|[0-9]%$")


def looks_positional(value: bytes) -> bool:
    """Is an argument of a call that opens a connection or a key a password, or a key?"""
    if (
        is_placeholder(value)
        or is_example(value)
        or _LOCATION.fullmatch(value)
        or b"." in value[1:-1]
        or _PUBLIC.match(value)
    ):
        return False
    if looks_strict(value) or (len(value) >= 20 and looks_random(value)):
        return True
    kinds = _count_classes(value)
    return _MIXED_WORD.fullmatch(value) is not None and kinds.digits >= 2 and len(value) >= 10 and kinds.lowers > 0


def looks_like_login_password(value: bytes) -> bool:
    """Is the value beside a user name a password? Labels of forms, and words for passwords, are not."""
    is_label = value[:1].isupper() and value.isalpha()
    return is_explicit(value) and not is_label and _LABEL.search(value) is None and not _CODE_NAME.fullmatch(value)


_LABEL: Final = re.compile(_any([*NAMES["password"], "pass", "secret", "word", "test"]).encode(), re.IGNORECASE)
_CODE_NAME: Final = re.compile(rb"[a-z]+(?:[A-Z][a-z]+)+|[a-z]+(?:[_.-][a-z]+)+|[A-Z_]+")


def is_sentence(value: bytes) -> bool:
    """Has the text words that sentences need?"""
    return not _SENTENCE.isdisjoint(value.lower().split())


def is_explicit(value: bytes) -> bool:
    """Is the value a password, where nothing else can stand but a placeholder or an expression?"""
    is_name = _SYSTEM_WORDS.issuperset(re.split(rb"[-_]", value.lower()))
    is_other = is_placeholder(value) or is_example(value) or is_name or b"$(" in value
    return not is_other and not value.startswith((b"-", b"$", b"<", b"%", b"{{", b"/")) and len(set(value)) > 2


def looks_random(value: bytes) -> bool:
    """Is the value long and mixed enough to be a key?"""
    if not 16 <= len(value) <= 1024 or not _KEY_CHARACTERS.fullmatch(value):
        return 32 <= len(value) <= 256 and _looks_salted(value)
    if _REPEAT.search(value) or _is_sequence(value):
        return False
    kinds = _count_classes(value)
    if not kinds.digits or not kinds.lowers + kinds.uppers:
        return False
    if all(_WORDY.fullmatch(part) for part in _SEPARATOR.split(value)):
        return False
    return bits_per_byte(value) >= (2.8 if _HEX.fullmatch(value) else 3.2)


def _looks_salted(value: bytes) -> bool:
    """Is the value random with all kinds of marks in it, as the keys of web frameworks are?"""
    kinds = _count_classes(value)
    letters = kinds.lowers + kinds.uppers
    is_mixed = min(kinds.digits, kinds.marks) >= 3 and letters <= 0.85 * len(value)
    return is_mixed and value.count(b" ") <= 2 and bits_per_byte(value) >= 4.2 and not _EXPRESSION.search(value[:1])


def looks_like_token(body: bytes) -> bool:
    """Is the part behind a known beginning random, and not a placeholder or words?"""
    if (_REPEAT.search(body) and len(body) < _LONG_BODY) or _is_sequence(body) or is_example(body):
        return False
    if _PLACEHOLDER_BODY.search(body):
        return False
    if len(body) >= 12 and all(_WORDY.fullmatch(part) for part in _SEPARATOR.split(body)):
        return False
    return bits_per_byte(body) >= min(2.6, 0.6 * math.log2(len(body) + 1))


_LONG_BODY: Final = 100  # what has so many characters may hold a run of zeros


# A beginning that some provider may use: letters, perhaps more of them, then what must be random
_PROVIDER: Final = re.compile(
    rb"(?P<prefix>(?:[a-z]{2,12}|[A-Z]{2,12}|[A-Z][a-z]{1,11})[0-9]{0,2}(?:[_-](?:[a-z]{2,12}|[A-Z]{2,12}|v?[0-9]{1,2})){0,3})[_-](?P<body>[A-Za-z0-9_=-]{16,160})"
)
_KEY_WORD: Final = re.compile(
    rb"(?i)(?:^|[_-])(?:[a-z]{0,8}key|sk|rk|pat|secret|token|tok|api|apikey|priv|private|auth|"
    rb"cred|pwd|[a-z]{1,6}pat|[a-z]{1,6}api|[a-z]{1,6}sk)(?:$|[_-])"
)
_ACCESS_WORD: Final = re.compile(rb"(?i)(?:^|[_-])(?:live|prod|svc|access|bot|admin|at|rt|service|personal)(?:$|[_-])")
_NOT_A_KEY: Final = re.compile(
    rb"(?i)(?:^|[_-])(?:pk|pub|public|publishable|phc|npub|anon)(?:[_-]|$)|(?:^|[_-])(?:sha[0-9]*|md5|nonce|hash|chunk|digest|integrity|etag|cache|id|cursor|page|next|req|"
    rb"request|msg|evt|deps|build|v[0-9]+|ref|data|image|img|css|style|styles|file|node|commit|index|bundle|main|vendor|trace|span|"
    rb"session|chatcmpl|call|toolu|resp|run|asst|thread|batch|uuid|test|example|base64|utf|iso|windows|linux|x86|aarch64|arm|amd|"
    rb"mac|blob|job|task|user|usr|org|proj|acct|cus|price|prod_id|sub|inv|pi|seti|cs|in|il|ch|txn|pm|card|src|ba|py|cp[0-9]+)$"
)


def looks_like_provider_token(word: bytes) -> bool:
    """Has an unknown token the form that providers use: a beginning in letters, a separator, and a long random part?"""
    match = _PROVIDER.fullmatch(word)
    if match is None or _NOT_A_KEY.search(match["prefix"]):
        return False
    body = match["body"].rstrip(b"=")
    kinds = _count_classes(body)
    if not kinds.digits or not looks_like_token(body) or _UUID.fullmatch(body):
        return False
    is_mixed = min(kinds.uppers, kinds.lowers) >= len(body) // 8 and kinds.digits >= 2
    if _KEY_WORD.search(match["prefix"]):
        longest = max(map(len, re.split(rb"[_-]", body)))
        return longest >= 16 and (is_mixed or kinds.digits >= 4) and bits_per_byte(body) >= 3.0
    least = 20 if _ACCESS_WORD.search(match["prefix"]) else 32
    is_alphabet = len(body) >= 48 and len(set(body)) > 0.95 * len(body)
    return len(body) >= least and is_mixed and bits_per_byte(body) >= 4.0 and not is_alphabet


def looks_mixed(body: bytes) -> bool:
    """Does the value mix upper and lower case letters and digits as random text does?"""
    kinds = _count_classes(body)
    return min(kinds.lowers, kinds.uppers) >= len(body) // 6 and kinds.digits >= 2 and looks_like_token(body)


def looks_like_basic_auth(value: bytes) -> bool:
    """Does the value decode to user:password?"""
    decoded = decode_base64(value)
    if decoded is None or b":" not in decoded or len(decoded) <= 4 or value in EXAMPLES:
        return False
    return all(0x20 <= byte < 0x7F for byte in decoded) and not is_placeholder(decoded.partition(b":")[2])


_PRIVATE_VERSIONS: Final = (b"\x02\x01\x00", b"\x02\x01\x01", b"\x02\x01\x03")


def looks_like_private_key(value: bytes) -> bool:
    """Does base64 begin as a private key in DER? Its sequence opens with a version: PKCS#1, PKCS#8, EC or PKCS#12.

    Certificates and public keys open with another sequence, or with a long number.
    """
    decoded = decode_base64(value[:64])
    if decoded is None or len(decoded) < 16 or decoded[0] != 0x30:
        return False
    size = decoded[1]
    body = decoded[2 + (size & 0x7F if size & 0x80 else 0) :]
    return body.startswith(_PRIVATE_VERSIONS)


def is_plain_id(value: bytes) -> bool:
    """Is this an id or a digest? In a sentence about keys, it may be that of a key."""
    return any(pattern.search(value) for pattern in (_COLONS, _PUBLIC_ID)) or _UUID.fullmatch(value) is not None


# Names of pods, and public keys of NATS
_PUBLIC_ID: Final = re.compile(rb"^(?:(?:[a-z][a-z0-9]*-)+[a-z0-9]{8,10}-[a-z0-9]{5}|[UANOC][A-Z2-7]{55})\Z")
_COLONS: Final = re.compile(rb"(?:[0-9a-fA-F]{2}:){5}|(?i:sha256|md5|sha1)[:-]|^[a-z]+:")


def decode_base64(value: bytes) -> bytes | None:
    """Return the bytes that base64, of either alphabet, with or without its padding, stands for."""
    plain = value.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
    try:
        return base64.b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None


_BASE62: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def has_checksum(body: bytes) -> bool:
    """Are the last six characters the CRC32 of the others, in base62?"""
    number, digits = zlib.crc32(body[:-6]), bytearray()
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return bytes(reversed(digits)) == body[-6:]


def looks_like_otp_key(value: bytes) -> bool:
    """Is this base32, in groups or in one, with digits, and not words?"""
    groups = value.split()
    is_grouped = len(groups) > 1 and (value.islower() or value.isupper() or any(map(_DIGITS.search, groups)))
    plain = b"".join(groups)
    has_digits = len(_DIGITS.findall(plain)) >= (1 if is_grouped else 2)
    return (is_grouped or plain.isupper()) and has_digits and not is_example(plain) and bits_per_byte(plain) >= 2.8


_DIGITS: Final = re.compile(rb"[2-7]")
_NOT_IN_SEEDS: Final = frozenset(
    b"the and for are but not was his her its our has had who did they them were which of in".split()
)


def looks_like_seed_phrase(value: bytes) -> bool:
    """Are these 12, 15, 18, 21 or 24 words without those that sentences need?"""
    words = value.replace(b",", b" ").split()
    return (
        len(words) in (12, 15, 18, 21, 24) and _NOT_IN_SEEDS.isdisjoint(words) and len(set(words)) > len(words) * 2 // 3
    )


_COUNTED: Final = tuple(count * math.log2(count) if count else 0.0 for count in range(1025))


def bits_per_byte(value: bytes) -> float:
    """Return Shannon's entropy of the bytes, up to 1,024 of them."""
    value = value[:1024]
    size = len(value)
    return math.log2(size) - sum(map(_COUNTED.__getitem__, map(value.count, set(value)))) / size if size else 0.0
