"""Freezes the Unicode tables of tiktoken's regular expressions into src/unicode-tables.ts.

In: tiktoken, asked through its own patterns. Out: the file's text on standard output. Touches nothing else.
V8's tables differ from Rust's, and change with every Node; ids must not. Run it again when tiktoken's tables change:
    python typescript/scripts/make-unicode-tables.py > typescript/src/unicode-tables.ts
"""

import tiktoken

BYTES = {bytes([b]): b for b in range(256)}
EVERY = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
)

PATTERNS = {name: r"\p{%s}" % name for name in CATEGORIES} | {"White_Space": r"\s", "Word": r"\w", "Han": r"\p{Han}"}


def members(pattern: str, among: str = EVERY) -> list[int]:
    """The characters that a one-character pattern matches: the ones it does not match are dropped by tiktoken."""
    encoding = tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks=BYTES, special_tokens={})
    return [ord(c) for c in bytes(encoding.encode_ordinary(among)).decode()]


def ranges(points: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1] = (found[-1][0], point)
        else:
            found.append((point, point))
    return found


def base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    out = ""
    while True:
        number, rest = divmod(number, 36)
        out = digits[rest] + out
        if number == 0:
            return out


def packed(points: list[int]) -> str:
    """Gap and length of each range, in base 36: `gap` alone where the range is one point, else `gap.length`."""
    parts = []
    at = 0
    for first, last in ranges(points):
        gap, length = first - at, last - first
        parts.append(base36(gap) if length == 0 else f"{base36(gap)}.{base36(length)}")
        at = last + 1
    return " ".join(parts)


def orbits() -> list[list[int]]:
    """Groups of characters that are one another's simple case variants."""
    cased = "".join(chr(c) for c in members(r"[\p{CWCM}\p{CWCF}\p{Cased}]"))
    done: set[int] = set()
    found = []
    for char in cased:
        if ord(char) in done:
            continue
        orbit = members(f"(?i:{char})", cased)
        if len(orbit) > 1:
            found.append(orbit)
        done.update(orbit)
    return found


def main() -> None:
    print("/**")
    print(" * In: nothing. Out: the Unicode properties and case variants that patterns may name, as Rust's tables have them.")
    print(" * Made by scripts/make-unicode-tables.py; not to be edited. A range is `gap` or `gap.length`, in base 36.")
    print(" */")
    print("export const PROPERTIES: Readonly<Record<string, string>> = {")
    for name, pattern in PATTERNS.items():
        print(f'  {name}: "{packed(members(pattern))}",')
    print("};")
    print()
    print("/** Each group of case variants, its code points in base 36. */")
    print("export const CASE_VARIANTS =")
    groups = [".".join(base36(point) for point in orbit) for orbit in orbits()]
    print('  "' + " ".join(groups) + '";')


if __name__ == "__main__":
    main()
