"""A Kubernetes manifest for a pool: a StatefulSet, and the headless Service whose name is the fleet's address."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..errors import InvalidArgument
from .docker.mount import Mount
from .docker.spec import ContainerSpec

DEFAULT_NAME = "miroir"
_UNITS = {"b": "", "k": "Ki", "m": "Mi", "g": "Gi"}  # docker's units of memory, which are powers of 1024

_MANIFEST = """\
# kubectl apply -f - ; then lease from {address} within the cluster.
apiVersion: v1
kind: Service
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: {name}}}
spec:
  clusterIP: None
  selector: {{app.kubernetes.io/name: {name}}}
  ports:
    - name: http
      port: {port}
      targetPort: http
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: {name}}}
spec:
  serviceName: {name}
  replicas: {n}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}}}
    spec:
      automountServiceAccountToken: false
      containers:
        - name: server
          image: {image}
          args: {args}
          ports:
            - name: http
              containerPort: {port}
          readinessProbe:
            httpGet: {{path: /health, port: http}}
            periodSeconds: 2
            timeoutSeconds: 2
          livenessProbe:
            httpGet: {{path: /health, port: http}}
            initialDelaySeconds: 60
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          env: {env}
          resources: {resources}
          volumeMounts: {volume_mounts}
      volumes: {volumes}
"""


def manifest(spec: ContainerSpec, n: int, *, name: str = DEFAULT_NAME) -> str:
    """The YAML for n containers; InvalidArgument for what Kubernetes has no equal of.

    A variable's value comes from the key of its name in the Secret `name`.
    """
    if n < 1:
        raise InvalidArgument(f"a pool of {n} has no container; ask for at least 1")
    for what, value in (("--env-file", spec.env_file), ("--network", spec.network), ("--docker-option", spec.options)):
        if value:
            raise InvalidArgument(f"{what} has no equal in Kubernetes; leave it out, and edit the manifest")
    limits = dict(_limits(spec))
    volumes = list(enumerate(spec.mounts))
    return _MANIFEST.format(
        name=json.dumps(name),
        address=f"dns://{name}:{spec.port}",
        n=n,
        port=spec.port,
        image=json.dumps(spec.image),
        args=json.dumps(spec.args),
        env=json.dumps([{"name": key, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}} for key in spec.env]),
        resources=json.dumps({"limits": limits, "requests": limits} if limits else {}),
        volume_mounts=json.dumps([_volume_mount(index, mount) for index, mount in volumes]),
        volumes=json.dumps([{"name": f"host-{index}", "hostPath": {"path": mount.host}} for index, mount in volumes]),
    )


def _volume_mount(index: int, mount: Mount) -> dict[str, object]:
    return {"name": f"host-{index}", "mountPath": mount.container, "readOnly": mount.mode == "ro"}


def _limits(spec: ContainerSpec) -> Iterator[tuple[str, str]]:
    if spec.cpus:
        yield "cpu", spec.cpus
    if spec.memory:
        number = spec.memory.lower().removesuffix("b") or spec.memory
        unit = number[-1] if number[-1] in _UNITS else ""
        if not number.removesuffix(unit).isdigit():
            raise InvalidArgument(f"{spec.memory!r} is not an amount of memory; write 512m or 4g")
        yield "memory", number.removesuffix(unit) + (_UNITS[unit] if unit else "")
