"""The packages as they would be published. In: a folder. Out: the files in it.

Runs uv and npm. Nothing is written into the checkout: npm packs a copy, because packing cleans and builds `dist`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "uv-env" / "bin" / "uv"
PYTHON = ROOT / ".venv" / "bin" / "python"
SECONDS = 300
PACKED = ("src", "examples", "scripts", "package.json", "tsconfig.json", "tsconfig.build.json", "README.md", "LICENSE")


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """What a command printed; if it failed, so does the test."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_python(into: Path) -> tuple[Path, Path]:
    """The wheel, built from the sdist; and the sdist."""
    command = [str(UV), "build", "--quiet", "--offline", "--no-build-isolation", "--python", str(PYTHON)]
    run([*command, "--out-dir", str(into), "python"], ROOT)
    (wheel,), (sdist,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


def pack_node(into: Path) -> Path:
    """The npm tarball."""
    shutil.copytree(ROOT / "maps", into / "maps")
    package = into / "typescript"
    package.mkdir()
    for name in PACKED:
        source = ROOT / "typescript" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, package / name)
    (package / "node_modules").symlink_to(ROOT / "typescript" / "node_modules")
    run(["npm", "pack", "--silent"], package)
    (tarball,) = package.glob("*.tgz")
    return tarball


def install_wheel(wheel: Path, into: Path) -> Path:
    """The programs of an empty environment with this wheel and what it needs, at the versions that are pinned here."""
    run([str(UV), "venv", "--quiet", "--python", str(PYTHON), str(into)], ROOT)
    command = [str(UV), "pip", "install", "--quiet", "--python", str(into / "bin" / "python")]
    command += ["--constraint", str(ROOT / "python" / "requirements.txt"), str(wheel)]
    try:
        run([*command, "--offline"], ROOT)  # the cache has it all after setup, unless somebody has emptied it
    except AssertionError:
        run(command, ROOT)
    return into / "bin"


def install_tarball(tarball: Path, into: Path, *beside: str) -> Path:
    """An empty folder with this package installed, and others beside it."""
    into.mkdir()
    # With a package of its own there, npm does not look for one further up.
    (into / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline"]
    run([*install, str(tarball), *beside], into)
    return into
