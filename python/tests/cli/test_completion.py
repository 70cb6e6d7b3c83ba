"""Completion, asked for as the shells ask."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command_line import PROGRAM, Person, somebody


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def completed(person: Person, *words: str) -> set[str]:
    """What bash would offer for the last of these words."""
    line = " ".join(("leafgate", *words))
    env = {"_LEAFGATE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    return {row.partition(",")[2] for row in person.runs(env=env).out.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(ada: Person, shell: str) -> None:
    ran = ada.runs("completion", shell)
    assert ran.code == 0, ran.said
    assert f"_LEAFGATE_COMPLETE={shell}_complete" in ran.out


def test_bash_takes_the_script_and_completes_with_it(ada: Person) -> None:
    script = f"""
        PATH={PROGRAM.parent}:$PATH
        eval "$(leafgate completion bash)"
        COMP_WORDS=(leafgate doc) COMP_CWORD=1
        _leafgate_completion leafgate doc leafgate
        echo "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=ada.folder)
    assert ran.stdout.split() == ["doctor"], ran.stderr


def test_commands_clients_scopes_and_maps(ada: Person) -> None:
    assert completed(ada, "i") == {"import", "install"}
    assert completed(ada, "install", "cl") == {"claude-desktop", "claude-code", "cline"}
    assert completed(ada, "import", "--client", "v") == {"vscode"}
    assert completed(ada, "call", "--map", "qwen") == {"qwen/qwen2", "qwen/qwen3"}
    assert completed(ada, "tokens", "encode", "--map", "openai/") == {"openai/cl100k_base", "openai/o200k_base"}
    assert completed(ada, "completion", "") == {"bash", "zsh", "fish"}


def test_maps_that_cannot_be_read_complete_nothing(ada: Person) -> None:
    (ada.folder / "index.json").write_text("broken")
    env = {"LEAFGATE_MAPS": str(ada.folder), "_LEAFGATE_COMPLETE": "bash_complete"}
    ran = ada.runs(env={**env, "COMP_WORDS": "leafgate call --map q", "COMP_CWORD": "3"})
    assert (ran.code, ran.out.strip(), "Traceback" in ran.err) == (0, "", False)


def test_another_shell_is_refused(ada: Person) -> None:
    ran = ada.runs("completion", "tcsh")
    assert ran.code == 2
    assert "'bash', 'zsh', 'fish'" in ran.err
