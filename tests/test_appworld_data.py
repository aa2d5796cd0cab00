"""An AppWorld data root: its layout, its splits, and what decides a task."""

from __future__ import annotations

from pathlib import Path

import pytest
from appworldhome import data_root

from miroir.appworld.data import DataRoot
from miroir.errors import AppWorldDataError


def test_ids_are_read_in_their_order_without_tags(tmp_path: Path) -> None:
    """R68: blank lines are skipped, and what stands after a colon is no part of an id."""
    data = DataRoot(data_root(tmp_path))

    assert data.task_ids("train") == ["toy_1", "toy_2"]
    assert data.task_ids("dev") == ["toy_2", "toy_1"]
    assert data.splits() == ["dev", "train"]


def test_a_split_without_a_file_names_those_that_have_one(tmp_path: Path) -> None:
    """R68: the error names the file, and the splits, sorted; it is a FileNotFoundError."""
    data = DataRoot(data_root(tmp_path))

    with pytest.raises(FileNotFoundError, match=r"datasets/test\.txt cannot be read; the splits are dev, train"):
        data.task_ids("test")


@pytest.mark.parametrize("missing", ["datasets", "tasks"])
def test_a_root_that_is_not_laid_out_says_how_to_fill_it(tmp_path: Path, missing: str) -> None:
    """R60: the folder that is missing, and the commands."""
    for name in {"datasets", "tasks"} - {missing}:
        (tmp_path / "data" / name).mkdir(parents=True)

    with pytest.raises(FileNotFoundError) as caught:
        DataRoot(tmp_path).check()

    assert str(caught.value) == (
        f"APPWORLD_DATA: {tmp_path}/data/{missing} is not there; fill the data root by"
        f" `appworld install && appworld download data --root {tmp_path}`"
    )


def test_a_root_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R58: it is resolved when it is named, not when it is used."""
    data_root(tmp_path / "root")
    monkeypatch.chdir(tmp_path)
    data = DataRoot("root")
    monkeypatch.chdir("/")

    data.check()
    assert data.tasks == tmp_path / "root" / "data" / "tasks"


def test_a_digest_covers_world_and_grader(tmp_path: Path) -> None:
    """It changes with the specs and with the grader, and not with what running left behind."""
    data = DataRoot(data_root(tmp_path))
    task = data.tasks / "toy_1"
    digests = [data.digest("toy_1")]
    (task / "ground_truth" / "__pycache__").mkdir()
    (task / "ground_truth" / "__pycache__" / "evaluation.pyc").touch()
    assert data.digest("toy_1") == digests[0]
    for file in (task / "specs.json", task / "ground_truth" / "evaluation.py"):
        file.write_text(file.read_text() + " ")
        digests.append(data.digest("toy_1"))

    assert len(set(digests)) == 3


@pytest.mark.parametrize("content", [None, "{", "[]", '{"instruction": "x"}'])
def test_specs_that_cannot_be_read_are_an_error(tmp_path: Path, content: str | None) -> None:
    """No file, no JSON, no object, no supervisor."""
    data = DataRoot(data_root(tmp_path))
    file = data.tasks / "toy_1" / "specs.json"
    file.unlink() if content is None else file.write_text(content)

    with pytest.raises(AppWorldDataError, match=r"toy_1/specs\.json .*; download the data root again"):
        data.specs("toy_1")
