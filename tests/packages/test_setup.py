"""scripts/setup.sh where it cannot succeed: it says why, in the words of the program that failed, and what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from building import ROOT

NODE = "case $1 in --version) echo v22.1.0;; *) exit 0;; esac\n"
PYTHON = """\
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python";;
  "-m pip") echo "ERROR: No matching distribution found for uv==0.13.7" >&2; exit 1;;
  --version*) echo "Python 3.12.1";;
esac
"""
OLD_PYTHON = 'case $1 in --version) echo "Python 3.9.2";; *) exit 1;; esac\n'
OLD_NODE = "case $1 in --version) echo v18.20.0;; *) exit 1;; esac\n"


def setup(folder: Path, **programs: str) -> str:
    """What setup prints in an empty checkout on a machine that has only these programs."""
    checkout, bin = folder / "checkout", folder / "bin"
    (checkout / "scripts").mkdir(parents=True)
    bin.mkdir()
    for name in ("setup.sh", "tools.txt"):
        shutil.copy(ROOT / "scripts" / name, checkout / "scripts")
    for name in ("bash", "dirname", "mkdir", "cat", "cp", "rm", "mktemp", "cksum"):
        (bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    for name, does in programs.items():
        (bin / name).write_text(f"#!/bin/bash\n{does}")
        (bin / name).chmod(0o755)
    script = checkout / "scripts" / "setup.sh"
    done = subprocess.run(
        ["/bin/bash", str(script)], env={"PATH": str(bin)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({"node": NODE, "python3": PYTHON}, ["No matching distribution found for uv", "pip install"]),
        ({"node": NODE, "python3": OLD_PYTHON}, ["needs Python 3.11 or newer; found: Python 3.9.2", "apt install"]),
        ({"node": NODE}, ["found: no Python", "python.org"]),
        (
            {"node": OLD_NODE, "python3": PYTHON},
            ["needs Node.js 20 or newer, with npm; found: v18", "nvm install"],
        ),
        ({"python3": PYTHON}, ["found: no Node.js", "nodejs.org"]),
    ],
)
def test_setup_says_why_it_failed(tmp_path: Path, programs: dict[str, str], said: list[str]) -> None:
    printed = setup(tmp_path, **programs)
    assert [words for words in said if words not in printed] == [], printed


def test_the_tools_are_pinned_by_version_and_hash() -> None:
    pins = (ROOT / "scripts" / "tools.txt").read_text()
    assert re.findall(r"^(\S+)==\S+ \\$", pins, re.MULTILINE) == ["rust-just", "uv"]
    entries = [line for line in pins.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"\S+==\S+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in entries)


def test_npx_runs_the_pinned_just_and_asks_no_registry() -> None:
    version = re.search(r"^rust-just==(\S+)", (ROOT / "scripts" / "tools.txt").read_text(), re.MULTILINE)
    assert version is not None
    command = ["npx", "--yes", "--offline", "--cache", "/nonexistent", "rust-just", "--version"]
    done = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"just {version[1]}", done.stderr
