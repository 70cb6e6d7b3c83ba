"""The kinds of values in a configuration, as annotations for pydantic models.

A kind checks a value, says in words what it takes (`hint`), and gives its JSON Schema. Variables are filled in here,
where the kind of a value is known: `${PORT}` may stand for a number, but "9000" in quotes may not. Every error message
is ours and never repeats a value of the file, which may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from leafgate.config.document import nearest
from leafgate.config.variables import Unfilled, Variables

REFUSED: Final = "refused"
UNKNOWN_KEY: Final = "unknown_key"

_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
_YES: Final = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
_UNTEXT: Final = re.compile("[\x00\ud800-\udfff]")


@dataclass
class Reading:
    """The context of one validation: where variables come from, and the files that were read for them."""

    variables: Variables
    files: list[Path] = field(default_factory=list)


def refusal(what: str) -> PydanticCustomError:
    return PydanticCustomError(REFUSED, "{what}", {"what": what})


def _details(what: str, *at: str) -> InitErrorDetails:
    return InitErrorDetails(type=refusal(what), loc=at, input=None)


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of scalar values: what it accepts in words (`hint`) and as a JSON Schema, and how pydantic checks it.

    Before that check, `from_variables` makes a value of a text that came from variables, and then `convert` is called;
    both raise ValueError where a value does not fit. Without `core`, the annotated type is checked. `is_text`: any text
    fits, so that a variable needs no mention in the JSON Schema.
    """

    hint: str
    schema: Mapping[str, Any]
    core: CoreSchema | None = None
    convert: Callable[[Any, Reading | None], Any] = lambda value, reading: value
    from_variables: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()
    is_text: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source) if self.core is None else self.core
        return core_schema.with_info_wrap_validator_function(self._read, inner)

    def _read(self, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        reading: Reading | None = info.context
        had_variables = False
        if isinstance(value, str) and reading is not None:
            try:
                filled = reading.variables.fill(value)
            except Unfilled as unfilled:
                raise refusal(str(unfilled)) from None
            reading.files.extend(filled.files)
            value, had_variables = filled.text, filled.had_variables
        if isinstance(value, str) and _UNTEXT.search(value):
            raise refusal("contains NUL or a lone surrogate")
        try:
            return handler(self.convert(self.from_variables(value) if had_variables else value, reading))
        except ValueError:  # pydantic's own errors are ValueErrors, too
            needed = self._needed(None if had_variables else value)
            raise refusal(f"{needed} (this value comes from its variables)" if had_variables else needed) from None

    def _needed(self, value: Any) -> str:
        """Say what is needed. The value itself is only used to guess what was meant."""
        word = value if isinstance(value, str) else ""
        if self.choices:
            near = nearest(word, self.choices)
            return self.hint + (f"; did you mean {near}?" if near else "")
        if self is SWITCH and word.lower() in _YES:
            return f"{self.hint}; write {_YES[word.lower()]} without quotes"
        return f"needs to be {self.hint}"


def text(hint: str = "a text", *, pattern: str = "", least: int = 0) -> Kind:
    """A text of `least` characters or more; `pattern` has to match all of it."""
    if pattern:
        core = core_schema.str_schema(strict=True, pattern=rf"\A(?:{pattern})\Z", regex_engine="python-re")
        return Kind(hint, {"type": "string", "pattern": f"^({pattern})$"}, core)
    schema = {"type": "string"} | ({"minLength": least} if least else {})
    return Kind(hint, schema, core_schema.str_schema(strict=True, min_length=least), is_text=True)


def choice(*choices: str) -> Kind:
    """One of several words."""

    def convert(value: Any, reading: Reading | None) -> Any:
        if (value.value if isinstance(value, Enum) else value) not in choices:
            raise ValueError
        return value

    return Kind(f"one of {', '.join(choices)}", {"enum": [*choices]}, convert=convert, choices=choices)


def whole(least: int, most: int | None = None) -> Kind:
    """A whole number within bounds."""
    return Kind(
        f"a whole number from {least}" + ("" if most is None else f" to {most}"),
        {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most}),
        core_schema.int_schema(strict=True, ge=least, le=most),
        convert=lambda value, _: int(value) if isinstance(value, float) and value.is_integer() else value,
        from_variables=lambda text: int(text) if _WHOLE.fullmatch(text) else text,
    )


def number(least: float, most: float, *, above: bool = False, unit: str = "") -> Kind:
    """A number within bounds; with `above`, the lower bound itself is too little."""
    what = f"a number of {unit}" if unit else "a number"
    hint = f"{what}, {f'above {least:g} and up to' if above else f'from {least:g} to'} {most:g}"
    core = core_schema.float_schema(strict=True, allow_inf_nan=False, le=most)
    core["gt" if above else "ge"] = least
    schema = {"type": "number", "exclusiveMinimum" if above else "minimum": least, "maximum": most}
    return Kind(hint, schema, core, from_variables=float)


def _to_text(value: Any, reading: Reading | None) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


SWITCH: Final = Kind(
    "true or false",
    {"type": "boolean"},
    core_schema.bool_schema(strict=True),
    from_variables=lambda text: {"true": True, "false": False}.get(text.lower()),
)
# A number, true or false becomes the text that was written: 1.10 stays 1.10.
WRITTEN: Final = Kind(
    "a text (or a number, as it is written)",
    {"type": ["string", "number", "boolean"]},
    core_schema.str_schema(strict=True),
    _to_text,
    is_text=True,
)

_SECURE: Final = r"https://[^\s/]\S*|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?(/\S*)?"
SECURE_URL: Final = text("a URL that begins with https:// (with http:// only on this machine)", pattern=_SECURE)


def _to_path(value: Any, reading: Reading | None) -> Any:
    """A path is relative to the file that names it."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or "://" in value:
        raise ValueError
    return Path(value) if reading is None else reading.variables.path(value)


FILE: Final = Kind(
    "the path of a file", {"type": "string", "minLength": 1}, core_schema.any_schema(), _to_path, is_text=True
)
FILE_OR_URL: Final = Kind(
    f"the path of a file, or {SECURE_URL.hint}",
    {"type": "string", "pattern": f"^({_SECURE}|((?!://).)+)$"},
    core_schema.any_schema(),
    lambda value, at: value if isinstance(value, str) and re.fullmatch(_SECURE, value) else _to_path(value, at),
)


def _to_state(value: Any, reading: Reading | None) -> Any:
    """A file of state is relative to the file that names it, as all files are."""
    if not isinstance(value, str) or not re.fullmatch(_STATE, value):
        raise ValueError
    kind, _, path = value.partition(":")
    return f"sqlite:{reading.variables.folder / path}" if kind == "sqlite" and reading is not None else value


_STATE: Final = r"auto|memory|sqlite:.+|(rediss?|valkeys?|unix)://\S+"
STATE: Final = Kind(
    "auto, memory, sqlite:PATH or redis://HOST:PORT/NUMBER",
    {"type": "string", "pattern": f"^({_STATE})$"},
    core_schema.str_schema(strict=True),
    _to_state,
)


@dataclass(frozen=True)
class ListOf:
    """A list of `least` entries or more; with `or_one`, one entry may stand for a list of one."""

    hint: str
    least: int = 0
    or_one: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def _read(self, value: Any) -> Any:
        if self.or_one and not isinstance(value, list | tuple):
            return [value]
        if not isinstance(value, list | tuple):
            raise refusal(f"needs to be {self.hint}")
        if len(value) < self.least:
            raise refusal(f"needs to be {self.hint}, not empty")
        return value


@dataclass(frozen=True)
class MapOf:
    """An object whose keys the operator chooses; `keys` names them in the reference.

    An entry is ignored if it is null, with `drop_null`, or if its key named `switched_off` is true.
    """

    hint: str
    keys: str = "name"
    drop_null: bool = False
    switched_off: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def _read(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise refusal(f"needs to be {self.hint}")
        entries = {name: each for name, each in value.items() if not self._is_left_out(each)}
        bad = [name for name in entries if not name or _UNTEXT.search(name)]
        if bad:
            what = "a name must not be empty, and must not contain NUL or a lone surrogate"
            raise ValidationError.from_exception_data("names", [_details(what, name) for name in bad])
        return entries

    def _is_left_out(self, value: Any) -> bool:
        if value is None:
            return self.drop_null
        return isinstance(value, Mapping) and value.get(self.switched_off) is True


def key(doc: str, default: Any = None, *, nullable: bool = False, alias: Any = None) -> Any:
    """A key of a section: its documentation and its default. The default `...` makes it required."""
    extra: Any = {"nullable": nullable}
    return Field(default, description=doc, alias=alias, json_schema_extra=extra)


class Section(BaseModel):
    """An object with known keys; no other key is accepted.

    Exactly one key of `exactly_one` is required, and at least one of `any_of` that is not empty; without it, the error
    is `any_what`. With `needs_a_key` it is not empty. `chapter` is the title of its keys in the reference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    hint: ClassVar[str] = ""
    exactly_one: ClassVar[tuple[str, ...]] = ()
    any_of: ClassVar[tuple[str, ...]] = ()
    any_what: ClassVar[str] = ""
    needs_a_key: ClassVar[bool] = False
    chapter: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **others: Any) -> None:
        """Make a `hint` of the required keys, or else of all keys, if the section has none."""
        if not cls.hint and cls.model_fields:
            names = [name for name, info in cls.model_fields.items() if info.is_required()] or [*cls.model_fields]
            cls.hint = f"an object with {' and '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}"

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Shows no values: some are secrets."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Section]) -> Section:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise refusal(f"needs to be {cls.hint}")
        problems = [*cls._problems(value)]
        try:
            section = handler(
                {name: each for name, each in value.items() if each is not None or name not in keys_of(cls)}
            )
        except ValidationError as error:
            problems += [cls._ours(each) for each in error.errors(include_url=False)]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return section

    @classmethod
    def _problems(cls, value: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
        keys = keys_of(cls)
        for name, each in value.items():
            if each is None and name in keys and not keys[name].nullable:
                # An empty `policy:` would otherwise switch the policy off.
                yield _details(f"has no value; leave it out, or give {keys[name].kind.hint}", name)
        if cls.exactly_one and sum(value.get(name) is not None for name in cls.exactly_one) != 1:
            misspelt = {nearest(name, [*keys]) for name in value if name not in keys}
            if not misspelt & {*cls.exactly_one}:
                yield _details(f"give either a {' or a '.join(cls.exactly_one)}")
        if cls.needs_a_key and not value:
            yield _details(f"needs to be {cls.hint}")
        if cls.any_of and not any(value.get(name) for name in cls.any_of):
            yield _details(cls.any_what, *[name for name in cls.any_of if name in value][:1])

    @classmethod
    def _ours(cls, error: Any) -> InitErrorDetails:
        """Rewrite one of pydantic's errors. Errors of inner sections are rewritten already."""
        loc = error["loc"]
        if error["type"] == "missing":
            return _details(f"{loc[-1]} is missing: {keys_of(cls)[loc[-1]].kind.hint}")
        if error["type"] == "extra_forbidden":
            kind = PydanticCustomError(UNKNOWN_KEY, "unknown key", {"section": cls})
        else:
            kind = PydanticCustomError(error["type"], "{what}", {**error.get("ctx", {}), "what": error["msg"]})
        return InitErrorDetails(type=kind, loc=loc, input=None)


@dataclass(frozen=True)
class Key:
    """A key as its model describes it; `entry` is the annotation of the entries of a list or an object."""

    name: str
    kind: Any
    entry: Any
    doc: str
    default: Any
    required: bool
    nullable: bool


@cache
def keys_of(section: type[Section]) -> dict[str, Key]:
    """The keys of a section, by the names that they have in a file."""
    annotations = get_type_hints(section, include_extras=True)
    keys = []
    for field_name, info in section.model_fields.items():
        default = None if info.is_required() else info.default
        extra: Any = info.json_schema_extra or {"nullable": False}
        name, kinds = info.alias or field_name, kind_of(annotations[field_name])
        keys.append(Key(name, *kinds, info.description or "", default, info.is_required(), **extra))
    return {key.name: key for key in keys}


def kind_of(annotation: Any) -> tuple[Any, Any]:
    """The kind that an annotation names, and the annotation of its entries where it has some."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is not Annotated:
        return annotation, None
    inner, *_, kind = get_args(annotation)
    if isinstance(kind, MapOf):
        return kind, get_args(inner)[1]
    return kind, get_args(inner)[0] if isinstance(kind, ListOf) else None
