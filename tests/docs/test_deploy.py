"""docs/deploy: the examples hold together. No Docker engine is needed: what the image would run is run here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateways import gateway_on_http
from page_shell import ROOT

DEPLOY = ROOT / "docs" / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "leafgate.service").read_text(encoding="utf-8")


def words_of(instruction: str) -> Any:
    """The JSON form of the last ENTRYPOINT or CMD."""
    return json.loads(re.findall(rf"^{instruction} (\[.+\])$", DOCKERFILE, re.MULTILINE)[-1])


def test_the_image_copies_what_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) \S+$", DOCKERFILE, re.MULTILINE)
    assert copied == ["python", "maps", "scripts/tools.txt"]
    assert all((ROOT / each).exists() for each in copied)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{each}" for each in copied} <= set(ignored)


def test_the_image_uses_the_uv_of_the_setup() -> None:
    install = "pip install .*--require-hashes -r (?:scripts/)?tools.txt"
    for text in ((ROOT / "scripts" / "setup.sh").read_text(), DOCKERFILE):
        assert re.search(install, text)


def test_the_image_runs_a_gateway_that_is_healthy(tmp_path: Path) -> None:
    """Its own words, at another address, with the configuration that compose mounts."""
    program, serve, *options = [word.replace("0.0.0.0", "127.0.0.1") for word in words_of("ENTRYPOINT")]
    assert (program, serve) == ("leafgate", "serve")
    flag, mounted = words_of("CMD")
    assert (flag, mounted) == ("--config", "/etc/leafgate/leafgate.yaml")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    with gateway_on_http(
        *options, flag, str(DEPLOY / "leafgate.yaml"), env={"TICKETS_TOKEN": "x", "PATH": path}
    ) as gateway:
        port = gateway.url.rpartition(":")[2]
        asked = re.search(r"urlopen\('(\S+?)'", DOCKERFILE)
        assert asked is not None
        with urllib.request.urlopen(asked[1].replace("8808", port), timeout=30) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=30)


def test_compose_mounts_what_is_there() -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["leafgate"]
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    files = [volume.split(":") for volume in service["volumes"] if volume.startswith("./")]
    assert [(DEPLOY / source).exists() for source, *_ in files] == [True]
    assert files[0][1] == words_of("CMD")[1]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def kubernetes(kind: str) -> Any:
    (found,) = (each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()) if each["kind"] == kind)
    return found


def test_kubernetes_runs_a_gateway_that_its_probes_find(tmp_path: Path) -> None:
    """The pod's words and file, with its state in memory; asked as the kubelet asks, under the pod's address."""
    pod = kubernetes("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    flag, mounted = container["args"]
    assert (flag, mounted) == tuple(words_of("CMD"))
    config = tmp_path / Path(mounted).name
    config.write_text(kubernetes("ConfigMap")["data"][config.name])
    password = container["env"][0]["name"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    words = ("--host", "0.0.0.0", flag, str(config), "--state", "memory")
    with gateway_on_http(*words, env={password: "x", "PATH": path}) as gateway:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container[probe]["httpGet"]
            headers = {each["name"]: each["value"] for each in asked["httpHeaders"]}
            with urllib.request.urlopen(
                urllib.request.Request(f"{gateway.url}{asked['path']}", headers=headers), timeout=30
            ) as answer:
                assert answer.status == 200
    drained = yaml.safe_load(config.read_text())["drain_seconds"]
    before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= before + drained + 5


def test_kubernetes_names_fit_each_other() -> None:
    deployment = kubernetes("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"]["matchLabels"], kubernetes("Service")["spec"]["selector"]]
    assert [*selectors, kubernetes("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]] == [labels] * 3
    volumes = {each["name"]: each for each in deployment["template"]["spec"]["volumes"]}
    (container,) = deployment["template"]["spec"]["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
    assert volumes["config"]["configMap"]["name"] == kubernetes("ConfigMap")["metadata"]["name"]
    assert kubernetes("Service")["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "leafgate.service"
    unit.write_text(UNIT.replace("/opt/leafgate/bin/leafgate", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, "leafgate.service" in done.stderr) == (0, False), done.stderr
