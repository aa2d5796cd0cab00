"""A `docker` for tests: `python fakedocker.py STATE COMMAND…`, whose containers are processes that listen for real.

STATE is a folder. In it `calls` has a line of JSON for each command, and a file `fail-COMMAND` makes that command fail
with the file's text; a file `answer-COMMAND` (`answer-service-ps`) has what a command prints that is not played here.
An image whose name has `missing` in it is neither here nor to be pulled, with `slow` that takes long. The first
argument of a container is what it does: `well`, `exit` (prints 70 lines and ends with 3), `silent` (never listens),
`stubborn` (does not end when asked to), `once` (the first one is well, others exit). Where a file `program` holds an
argv as JSON, a container is that program with the container's arguments instead, in a folder with links for its mounts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
VALUED = {"--name", "--label", "-p", "--publish", "-v", "--mount", "--env", "--env-file", "--memory", "--cpus",
          "--network", "--filter", "--format", "--tail", "-t", "--since", "--until"}  # fmt: skip


def fail(text: str, code: int = 1) -> None:
    print(text, file=sys.stderr)
    sys.exit(code)


def parsed(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options before the first other word, and that word with all after it."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        option = words.pop(0)
        options.setdefault(option, []).append(words.pop(0) if option in VALUED else "")
    return options, words


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Container:
    """A container's file in the state folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said = json.loads(path.read_text())

    @classmethod
    def all(cls) -> list[Container]:
        found = []
        for path in sorted(STATE.glob("container-*")):
            try:
                found.append(cls(path))
            except (OSError, ValueError):
                continue
        return found

    @classmethod
    def find(cls, key: str) -> Container | None:
        return next((one for one in cls.all() if key == one.said["name"] or one.said["id"].startswith(key)), None)

    @property
    def running(self) -> bool:
        return alive(self.said["pid"])

    @property
    def code(self) -> int:
        try:
            return int((STATE / f"code-{self.said['id']}").read_text())
        except (OSError, ValueError):
            return 137

    @property
    def status(self) -> str:
        return "Up 3 seconds" if self.running else f"Exited ({self.code}) 1 second ago"

    def field(self, match: re.Match[str]) -> str:
        if match["label"]:
            return str(self.said["labels"].get(match["label"], ""))
        return str({"ID": self.said["id"], "Names": self.said["name"], "Status": self.status}[match["field"]])

    def inspected(self) -> dict[str, object]:
        port = STATE / f"port-{self.said['id']}"
        bound = [{"HostIp": "127.0.0.1", "HostPort": port.read_text()}] if port.exists() else None
        state = {"Running": self.running, "Status": "running" if self.running else "exited", "ExitCode": self.code}
        return {"Id": self.said["id"], "State": state, "NetworkSettings": {"Ports": {"8000/tcp": bound}}}


def run(words: list[str]) -> None:
    options, (image, *args) = parsed(words)
    name = options.get("--name", [os.urandom(4).hex()])[0]
    labels = dict(label.split("=", 1) for label in options.get("--label", []))
    if "missing" in image:
        fail(f"Unable to find image '{image}' locally\ndocker: Error response from daemon: no such image.", 125)
    cid = os.urandom(32).hex()
    try:
        with (STATE / f"name-{name}").open("x") as file:
            file.write(cid)
    except FileExistsError:
        fail(
            f'docker: Error response from daemon: Conflict. The container name "/{name}" is already in use by container'
            " \"00\".\n\nRun 'docker run --help' for more information",
            125,
        )
    said = {"id": cid, "name": name, "labels": labels, "pid": 0}
    record = STATE / f"container-{cid}"
    outside = (options.get("-p") or options.get("--publish") or ["127.0.0.1::0"])[0].split(":")[-2] or "0"
    if (STATE / f"taken-{outside}").exists():
        record.write_text(json.dumps(said))
        fail(f"docker: Error response from daemon: Bind for 0.0.0.0:{outside} failed: port is already allocated.", 125)
    program, root = STATE / "program", mounted(cid, options.get("-v", []))
    own = [sys.executable, __file__, str(STATE), "serve", cid, outside]
    with (STATE / f"log-{cid}").open("wb") as log:
        server = subprocess.Popen(
            [*(json.loads(program.read_text()) if program.exists() else own), *args],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            cwd=root, env={**os.environ, "APPWORLD_ROOT": str(root)},
        )  # fmt: skip
    part = STATE / f"part-{cid}"
    part.write_text(json.dumps({**said, "pid": server.pid}))
    part.rename(record)
    port = STATE / f"port-{cid}"
    while args[:1] in (["well"], ["stubborn"]) and not port.exists() and server.poll() is None:
        time.sleep(0.01)
    print(cid)


def mounted(cid: str, mounts: list[str]) -> Path:
    """A folder that stands for the container's /run."""
    root = STATE / f"root-{cid}"
    root.mkdir()
    for host, inside, _mode in (mount.split(":") for mount in mounts):
        link = root / Path(inside).relative_to("/run") if inside.startswith("/run/") else root / Path(inside).name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(host)
    return root


def serve(cid: str, port: str, kind: str = "well", *_: str) -> None:
    """What a container does."""
    if kind == "once":
        try:
            (STATE / "first").mkdir()
        except FileExistsError:
            kind = "exit"
    if kind == "exit":
        print(*(f"line {number}\x1b[31m" for number in range(70)), sep="\n")
        print("told to fail", file=sys.stderr)
        (STATE / f"code-{cid}").write_text("3")
        sys.exit(3)
    if kind == "silent":
        print("silent", flush=True)
        time.sleep(600)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
    part = STATE / f"part-port-{cid}"
    part.write_text(str(listener.getsockname()[1]))
    part.rename(STATE / f"port-{cid}")
    while True:
        with listener.accept()[0] as client:
            path = client.recv(65536).split(b" ")[1]
            said = {"status": "healthy", "leased": False, "boot_id": cid}
            if (STATE / "episodes").exists():
                said["episodes"] = 1
            content = json.dumps(said)
            status = "503 No" if path == b"/never" else "200 OK"
            client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode())


def listing(words: list[str]) -> None:
    options, _ = parsed(words)
    for container in Container.all():
        wanted = [text.removeprefix("label=").partition("=") for text in options.get("--filter", [])]
        labels = container.said["labels"]
        if all(name in labels and (not equals or labels[name] == value) for name, equals, value in wanted):
            print(
                re.sub(r'{{\.(?:(?P<field>\w+)|Label "(?P<label>[\w.]+)")}}', container.field, options["--format"][0])
            )


def remove(words: list[str]) -> None:
    code = 0
    for key in parsed(words)[1]:
        container = Container.find(key)
        if container is None:
            print(f"Error response from daemon: No such container: {key}", file=sys.stderr)
            code = 1
            continue
        if container.running:
            os.killpg(container.said["pid"], signal.SIGKILL)
        container.path.unlink(missing_ok=True)
        (STATE / f"name-{container.said['name']}").unlink(missing_ok=True)
        print(key)
    sys.exit(code)


def on_one(command: str, words: list[str]) -> None:
    rest = parsed(words)[1]
    container = Container.find(rest[0])
    if container is None:
        fail(f"Error response from daemon: No such container: {rest[0]}")
    assert container is not None
    if command == "inspect":
        print(json.dumps([container.inspected()]))
    if command == "logs":
        sys.stdout.write("".join(line + "\n" for line in _log(container)[-50:]))
    if command in {"kill", "stop"} and container.running:
        os.killpg(container.said["pid"], signal.SIGKILL if command == "kill" else signal.SIGTERM)
        while command == "stop" and container.running:
            time.sleep(0.01)
    if command == "rename":
        (STATE / f"name-{container.said['name']}").rename(STATE / f"name-{rest[1]}")
        container.path.write_text(json.dumps({**container.said, "name": rest[1]}))


def _log(container: Container) -> list[str]:
    return (STATE / f"log-{container.said['id']}").read_text(errors="replace").splitlines()


def events(words: list[str]) -> None:
    """Tell of the containers that end, until `--until`."""
    until = float(parsed(words)[0]["--until"][0])
    known: dict[str, Container] = {}
    while time.time() < until:
        now = {container.said["id"]: container for container in Container.all()}
        for cid, container in {**known, **now}.items():
            if cid not in now or not container.running:
                attributes = {"exitCode": str(container.code)}
                action = "die" if cid in now else "destroy"
                print(json.dumps({"Action": action, "Actor": {"ID": cid, "Attributes": attributes}}), flush=True)
        known = now
        time.sleep(0.03)


def main() -> None:
    command, words = sys.argv[2], sys.argv[3:]
    if command == "serve":
        serve(*words)
        return
    with (STATE / "calls").open("a") as calls:
        calls.write(json.dumps([command, *words]) + "\n")
    for failing in (STATE / f"fail-{command}", STATE / f"fail-{command}-{''.join(words[:1])}"):
        if failing.exists():
            fail(failing.read_text())
    if command == "run":
        run(words)
    elif command == "ps":
        listing(words)
    elif command == "rm":
        remove(words)
    elif command == "events":
        events(words)
    elif command == "pull":
        time.sleep(600 if "slow" in words[-1] else 0)
        fail(f"Error response from daemon: pull access denied for {words[-1]}")
    elif command == "image":
        sys.exit(1 if "missing" in words[-1] else 0)
    elif command in {"info", "node", "service"}:
        answer = STATE / "-".join(["answer", command, *words[: command != "info"]])
        sys.stdout.write(answer.read_text() if answer.exists() else "")
    elif command == "version":
        print("20.10.24")
    else:
        on_one(command, words)


if __name__ == "__main__":
    main()
