"""scripts/install-system-packages.sh, with programs of our own in the place of the system's: what it asks apt for."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from building import ROOT

SCRIPT = ROOT / "scripts" / "install-system-packages.sh"
TELL = 'echo "$(basename "$0") $*" >>"$(dirname "$0")/asked"\n'
ROOT_ID, USER_ID = "echo 0\n", "echo 1000\n"


@dataclass(frozen=True)
class Machine:
    """One that has only these programs."""

    bin: Path

    def has(self, name: str, does: str = "") -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/bash\n{does}")
        program.chmod(0o755)

    def install(self) -> tuple[list[str], str]:
        """What was asked of apt and sudo, and what was said."""
        done = subprocess.run(
            ["/bin/bash", str(SCRIPT)], env={"PATH": str(self.bin)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        asked = self.bin / "asked"
        return asked.read_text().splitlines() if asked.exists() else [], done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.has("id", ROOT_ID)
    for name in ("basename", "dirname"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    return made


def test_nothing_is_missing(machine: Machine) -> None:
    machine.has("chromium")
    machine.has("redis-server")
    machine.has("apt-get", TELL)
    assert machine.install() == ([], "")


def test_only_what_is_missing_is_installed(machine: Machine) -> None:
    machine.has("redis-server")
    machine.has("apt-get", TELL)
    asked, said = machine.install()
    assert [line.split()[-1] for line in asked if " install " in line] == ["chromium"]
    assert "chromium" in said


def test_no_apt(machine: Machine) -> None:
    asked, said = machine.install()
    assert asked == []
    assert "cannot be installed here: chromium redis-server" in said


def test_no_right_to_install(machine: Machine) -> None:
    machine.has("id", USER_ID)
    machine.has("apt-get", TELL)
    machine.has("sudo", "exit 1\n")
    asked, said = machine.install()
    assert asked == []
    assert "cannot be installed here" in said


def test_with_sudo(machine: Machine) -> None:
    machine.has("id", USER_ID)
    machine.has("apt-get", "exit 0\n")
    machine.has("sudo", TELL + 'shift; [ "$1" = true ] || "$@"\n')
    asked, _ = machine.install()
    assert [line for line in asked if " install " in line and line.endswith("redis-server")]
    assert all(line.startswith("sudo -n ") for line in asked)


def test_apt_fails(machine: Machine) -> None:
    machine.has("apt-get", "exit 100\n")
    _, said = machine.install()
    assert "chromium could not be installed" in said
    assert "redis-server could not be installed" in said
