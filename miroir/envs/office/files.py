"""Shared files, every version of them kept."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from ...serve.environment import ToolError
from . import listing
from .operation import Answer, App, Email, Page, Query, operation
from .world import Row, Rows, World

Path = Annotated[str, "path of a file, like /Finance/Budget.csv"]
Version = Annotated[int, "version number"]

EVERYONE = "everyone"


class Files(App):
    """Read and change shared files."""

    name: ClassVar[str] = "files"
    summary: ClassVar[str] = "shared files with versions"

    @operation("List the files under a folder.")
    def list(self, folder: Annotated[str, "path of a folder; / holds all"] = "/", page: Page = 1) -> Answer:
        inside = folder.rstrip("/") + "/"
        rows = [row for row in self._readable() if row["path"].startswith(inside)]
        if not rows:
            folders = sorted({row["path"].rpartition("/")[0] or "/" for row in self._readable()})
            raise ToolError(f"there is no folder {folder!r}; folders: {', '.join(folders)}")
        return listing.paged("files", [_line(row) for row in rows], page)

    @operation("Search files by path and text.")
    def search(self, query: Query, page: Page = 1) -> Answer:
        rows = [row for row in self._readable() if listing.holds(query, row["path"], row["content"])]
        return listing.paged("files", [_line(row) for row in rows], page)

    @operation("Read a file, its newest version by default.")
    def read(self, path: Path, version: Version | None = None) -> Answer:
        row = self._file(path)
        return _line(row) | ({"content": row["content"]} if version is None else self._version(row, version))

    @operation("A file's versions: who saved which when, oldest first.")
    def history(self, path: Path) -> Answer:
        rows = self.world.all("versions", file=self._file(path)["id"])
        kept = [{"version": row["version"], "author": row["author"], "saved_at": row["saved_at"]} for row in rows]
        return {"path": path, "versions": kept}

    @operation("Create a file that everyone can read.", writes=True)
    def create(self, path: Path, content: str) -> Answer:
        self._unused(path)
        row = self.world.insert(
            "files", path=path, owner=self.me, readers=[EVERYONE], content="", version=0, updated_by=self.me
        )
        return self._save(row, content)

    @operation("Replace a piece of text, which must occur exactly once, in a file.", writes=True)
    def edit(self, path: Path, find: str, replace: str) -> Answer:
        row = self._file(path)
        count = row["content"].count(find) if find else 0
        if count != 1:
            raise ToolError(f"the text to find occurs {count} times in {path}; it must occur exactly once")
        return self._save(row, row["content"].replace(find, replace))

    @operation("Add text at the end of a file.", writes=True)
    def append(self, path: Path, text: str) -> Answer:
        row = self._file(path)
        gap = "" if not row["content"] or row["content"].endswith("\n") else "\n"
        return self._save(row, row["content"] + gap + text)

    @operation("Overwrite a file with new content.", writes=True)
    def write(self, path: Path, content: str) -> Answer:
        return self._save(self._file(path), content)

    @operation("Make an older version of a file the newest.", writes=True)
    def restore(self, path: Path, version: Version) -> Answer:
        row = self._file(path)
        return self._save(row, self._version(row, version)["content"])

    @operation("Rename or move a file.", writes=True)
    def move(self, path: Path, new_path: Path) -> Answer:
        row = self._file(path)
        self._unused(new_path)
        return _line(self.world.update("files", row["id"], path=new_path))

    @operation("Let one more person read a file.", writes=True)
    def share(self, path: Path, person: Email) -> Answer:
        row = self._file(path)
        readers = sorted({*row["readers"], self._person(person)["id"]})
        return _line(self.world.update("files", row["id"], readers=readers))

    @operation("Take the right to read a file from one person.", writes=True)
    def unshare(self, path: Path, person: Email) -> Answer:
        row = self._file(path)
        if person not in row["readers"]:
            raise ToolError(f"{path} is not shared with {person!r}; its readers: {', '.join(row['readers'])}")
        readers = [reader for reader in row["readers"] if reader != person]
        return _line(self.world.update("files", row["id"], readers=readers))

    @operation("Make somebody else the owner of a file of yours; you can still read it.", writes=True)
    def transfer(self, path: Path, person: Email) -> Answer:
        row = self._file(path)
        if row["owner"] != self.me:
            raise ToolError(f"only the owner, {row['owner']}, can give {path} to somebody else")
        readers = row["readers"] if EVERYONE in row["readers"] else sorted({*row["readers"], self.me})
        return _line(self.world.update("files", row["id"], owner=self._person(person)["id"], readers=readers))

    @operation("Delete a file.", writes=True)
    def delete(self, path: Path) -> Answer:
        self.world.delete("files", self._file(path)["id"])
        return {"path": path, "deleted": True}

    def _readable(self) -> Rows:
        rows = [row for row in self.world.all("files") if self._may_read(row)]
        return sorted(rows, key=lambda row: row["path"])

    def _may_read(self, row: Row) -> bool:
        return row["owner"] == self.me or EVERYONE in row["readers"] or self.me in row["readers"]

    def _file(self, path: str) -> Row:
        rows = self.world.all("files", path=path)
        if not rows:
            known = [row["path"] for row in self._readable()]
            raise ToolError(f"there is no file {path!r}; nearest: {listing.nearest(path, known)}")
        if not self._may_read(rows[0]):
            raise ToolError(f"you may not read {path}; its owner is {rows[0]['owner']}")
        return rows[0]

    def _unused(self, path: str) -> None:
        if not path.startswith("/") or path.endswith("/"):
            raise ToolError(f"{path!r} is no path of a file; write it like /Folder/Name.md", "invalid_args")
        if self.world.all("files", path=path):
            raise ToolError(f"there is a file {path!r} already; edit or write changes it")

    def _version(self, row: Row, version: int) -> Row:
        kept = self.world.all("versions", file=row["id"], version=version)
        if not kept:
            raise ToolError(f"{row['path']} has no version {version}; its versions are 1 to {row['version']}")
        return {name: kept[0][name] for name in ("version", "content")}

    def _save(self, row: Row, content: str) -> Answer:
        return _line(save(self.world, row, content, self.me, self.world.stamp))


def save(world: World, row: Row, content: str, author: str, saved_at: str) -> Row:
    """Make `content` the newest version of the file and return its row."""
    version = row["version"] + 1
    world.insert("versions", file=row["id"], version=version, content=content, author=author, saved_at=saved_at)
    saved: Row = world.update(
        "files", row["id"], content=content, version=version, updated_at=saved_at, updated_by=author
    )
    return saved


def _line(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("path", "owner", "readers", "version", "updated_at", "updated_by")}
