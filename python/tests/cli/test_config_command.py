import json
from pathlib import Path

from click.testing import CliRunner, Result

from leafgate.cli.main import cli
from leafgate.config.reference import reference_text, schema_text


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["config", *args])


def test_a_file_in_order_is_told_with_its_servers_and_notices(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}, "theme": "dark"}')
    result = run("check", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{file}: not for leafgate, ignored: theme",
        f"{file}: valid; servers: a",
    ]
    report = json.loads(run("check", "--json", str(file)).stdout)
    assert (report["ok"], report["servers"], report["problems"]) == (True, ["a"], [])
    assert len(report["notices"]) == 1


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "leafgate.yaml"
    file.write_text("mcpServers:\n  files: {comand: x}\nport: x\n")
    result = run("check", str(file))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{file}: 2 problems",
        f"{file}:2: mcpServers.files.comand: unknown key; did you mean command?",
        f"{file}:3: port: needs to be a whole number from 0 to 65535",
    ]


def test_problems_as_json_are_all_there_with_line_and_path(tmp_path: Path) -> None:
    file = tmp_path / "leafgate.yaml"
    file.write_text("catalog: c.json\n" + "".join(f"zz{n}: 1\n" for n in range(15)))
    result = run("check", "--json", str(file))
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"], len(report["problems"])) == (1, False, 15)
    assert (report["problems"][0]["line"], report["problems"][0]["path"]) == (2, "zz0")


def test_a_missing_file_is_a_problem_too(tmp_path: Path) -> None:
    result = run("check", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "cannot be read" in result.stdout


def test_the_schema_and_the_reference_are_printed() -> None:
    assert run("schema").stdout == schema_text()
    assert run("reference").stdout == reference_text()
