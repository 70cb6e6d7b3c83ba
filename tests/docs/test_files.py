"""What no file of the repository may hold: paths of the machine it was written on, and where its packages came from."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from page_shell import ROOT

# Hosts and settings of package registries: which one is used is the business of the machine that installs.
REGISTRY = re.compile(r"registry\.npmjs|pypi\.org/|files\.pythonhosted|--(?:extra-)?index-url|\b_authToken\b")


def files() -> list[Path]:
    """Those that are in git or would be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def test_no_path_of_this_checkout() -> None:
    here = re.compile(re.escape(str(ROOT)) + r"\b")
    assert [str(path.relative_to(ROOT)) for path in files() if here.search(text_of(path))] == []


def test_no_registry() -> None:
    found = [str(path.relative_to(ROOT)) for path in files() if REGISTRY.search(text_of(path))]
    assert found == []


def test_locks_name_no_host() -> None:
    packages = json.loads(text_of(ROOT / "typescript" / "package-lock.json"))["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
