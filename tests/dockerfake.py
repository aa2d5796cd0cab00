"""The fake `docker` as tests use it: its command, what it was asked, and what it has left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fakedocker import alive

SCRIPT = Path(__file__).with_name("fakedocker.py")


class DockerFake:
    """A fake Docker whose state is a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.command = (sys.executable, "-I", "-S", str(SCRIPT), str(folder))

    def calls(self, command: str | None = None) -> list[list[str]]:
        """What it was asked, oldest first; of one command when it is named."""
        path = self.folder / "calls"
        asked = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [words for words in asked if command in (None, words[0])]

    def fail(self, command: str, text: str) -> None:
        """Have a command fail with this text from now on."""
        (self.folder / f"fail-{command}").write_text(text)

    def heal(self, command: str) -> None:
        """Have it work again."""
        (self.folder / f"fail-{command}").unlink()

    def answer(self, command: str, text: str) -> None:
        """What a command prints from now on, such as `service-ps`."""
        part = self.folder / "part-answer"
        part.write_text(text)
        part.rename(self.folder / f"answer-{command}")

    def take(self, port: int) -> None:
        """Have the port be another container's."""
        (self.folder / f"taken-{port}").touch()

    def do(self, *words: str) -> str:
        """Run a command as somebody else would."""
        return subprocess.run([*self.command, *words], check=True, capture_output=True, text=True).stdout

    @property
    def containers(self) -> dict[str, dict[str, object]]:
        """What there is, by name."""
        found = [json.loads(path.read_text()) for path in self.folder.glob("container-*")]
        return {container["name"]: container for container in found}

    def pid(self, name: str) -> int:
        """The process of a container."""
        pid = self.containers[name]["pid"]
        assert isinstance(pid, int)
        return pid

    def kill(self, name: str) -> None:
        """End a container's process as the kernel would."""
        os.kill(self.pid(name), 9)

    def close(self) -> None:
        """End every container that a test has left."""
        for container in self.containers.values():
            pid = container["pid"]
            assert isinstance(pid, int)
            if pid and alive(pid):
                os.killpg(pid, 9)
                while alive(pid):
                    time.sleep(0.01)
