"""Packages are built and installed once for all tests of this folder."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import build_python, install_tarball, install_wheel, pack_node

READY = "Ctrl-C stops"


@pytest.fixture(scope="session")
def python_packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build_python(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(python_packages: tuple[Path, Path]) -> Path:
    return python_packages[0]


@pytest.fixture(scope="session")
def sdist(python_packages: tuple[Path, Path]) -> Path:
    return python_packages[1]


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that has the wheel and nothing else."""
    return install_wheel(wheel, tmp_path_factory.mktemp("installed") / "env")


@pytest.fixture(scope="session")
def env(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Somebody with this environment, a home, and nothing of this checkout."""
    return {"HOME": str(tmp_path_factory.mktemp("home")), "PATH": f"{programs}:/usr/bin:/bin", "COLUMNS": "200"}


@pytest.fixture(scope="session")
def url(env: dict[str, str]) -> Iterator[str]:
    """Where the wheel's gateway serves, in front of the demo servers that it has."""
    command = ["leafgate", "serve", "--transport", "http", "--port", "0"]
    with_node = {**env, "PATH": f"{env['PATH']}:{os.environ['PATH']}"}
    with subprocess.Popen(command, cwd=env["HOME"], env=with_node, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _announced(process)
        finally:
            process.terminate()


def _announced(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith(READY):
            break
    found = re.search(r"(http://\S+)/mcp", said)
    assert found, said
    return found[1]


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_node(tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="session")
def node_folder(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the tarball, and what its README puts beside it."""
    beside = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/server-everything@2026.8.31", "zod@^3.25")
    return install_tarball(tarball, tmp_path_factory.mktemp("node") / "empty", *beside)
