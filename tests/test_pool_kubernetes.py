"""The manifest of a pool on Kubernetes; whether it is valid, a peer says in tests/peers."""

from __future__ import annotations

import pytest

from miroir.cli import main
from miroir.errors import InvalidArgument
from miroir.pool import ContainerSpec
from miroir.pool.kubernetes import manifest


def test_the_manifest_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A Service without an address of its own, whose name is the fleet's, and as many containers as asked for."""
    monkeypatch.setenv("TOKEN", "secret-value")
    words = ["--image", "r/world:1", "-n", "8", "--memory", "4g", "--cpus", "1.5", "--mount", "/d:/e:ro"]
    words += ["--port", "9000", "--token-env", "TOKEN", "--engine", "kubernetes", "--print", "--", "serve", "a: b"]
    assert main(["pool", *words]) == 0
    shown = capsys.readouterr().out
    for line in (
        "  clusterIP: None",
        "  replicas: 8",
        '          image: "r/world:1"',
        '          args: ["serve", "a: b"]',
        "              containerPort: 9000",
        '          resources: {"limits": {"cpu": "1.5", "memory": "4Gi"}, "requests": {"cpu": "1.5", "memory": "4Gi"}}',
        '          volumeMounts: [{"name": "host-0", "mountPath": "/e", "readOnly": true}]',
        '      volumes: [{"name": "host-0", "hostPath": {"path": "/d"}}]',
    ):
        assert f"{line}\n" in shown
    assert "dns://miroir:9000" in shown
    assert '"secretKeyRef": {"name": "miroir", "key": "TOKEN"}' in shown
    assert "secret-value" not in shown


@pytest.mark.parametrize(
    ("memory", "shown"), [("512", "512"), ("512b", "512"), ("64k", "64Ki"), ("512M", "512Mi"), ("4gb", "4Gi")]
)
def test_memory_is_in_kubernetes_units(memory: str, shown: str) -> None:
    """docker's k, m and g are powers of 1024."""
    assert f'"memory": "{shown}"' in manifest(ContainerSpec("i", memory=memory), 1)


@pytest.mark.parametrize(
    ("spec", "n", "message"),
    [
        (ContainerSpec("i", memory="lots"), 1, "'lots' is not an amount of memory; write 512m or 4g"),
        (ContainerSpec("i", env_file="/f"), 1, "--env-file has no equal in Kubernetes"),
        (ContainerSpec("i", network="n"), 1, "--network has no equal in Kubernetes"),
        (ContainerSpec("i", options=("--init",)), 1, "--docker-option has no equal in Kubernetes"),
        (ContainerSpec("i"), 0, "a pool of 0 has no container"),
    ],
)
def test_what_has_no_equal_is_refused(spec: ContainerSpec, n: int, message: str) -> None:
    """It is not left out in silence."""
    with pytest.raises(InvalidArgument, match=message):
        manifest(spec, n)
