"""The Spec of a training: its tasks, its datasets, and what it refuses before anything begins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trlplay import environment, free
from troubled import Troubled, served

from miroir.coworkers import CoworkerModel
from miroir.deadlines import Deadlines
from miroir.errors import ConnectionFailed, HttpError, InvalidArgument, MissingExtra, RecordError, UrlFileError
from miroir.records import load
from miroir.trl import Spec

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """A troubled container."""
    with served(Troubled) as one:
        yield one


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package datasets, whose datasets are lists."""
    module = types.ModuleType("datasets")
    module.Dataset = types.SimpleNamespace(from_list=list)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


def ids(rows: list[Any]) -> list[str]:
    """The tasks of rows."""
    return [row["task_id"] for row in rows]


@pytest.mark.usefixtures("datasets")
def test_datasets_have_a_row_for_each_task(urls: list[str]) -> None:
    """A row asks what the task asks, and tells its id; with one set of tools there is no environment to name."""
    with Spec(urls, tasks=["short", "plain"]) as spec:
        assert ids(spec.train_dataset) == ["plain", "short"]
        assert ids(spec.eval_dataset) == ["held-out"]
        assert set(spec.train_dataset[0]) == {"prompt", "task_id"}
        assert spec.train_dataset[1]["prompt"][0]["content"].startswith("Do short.\n\nYou have 2 tool calls.")


@pytest.mark.usefixtures("datasets")
def test_tasks_of_different_tools_name_their_environment(urls: list[str]) -> None:
    """Where tasks narrow their tools there is a factory for each set, which the rows name."""
    with Spec(urls, tasks=["plain", "narrow"]) as spec:
        assert {row["task_id"]: row["environment"] for row in spec.train_dataset} == {
            "plain": "tools-1",
            "narrow": "tools-2",
        }
        assert list(spec.environment_factory) == list(spec.async_environment_factory) == ["tools-1", "tools-2"]
        env = environment(spec, "narrow", name="tools-2")
        env.say()
        assert env._rollout.grade()["reward"] == 1.0
        with pytest.raises(InvalidArgument, match="no task 'plain' is among this environment's 1"):
            env.reset(task_id="plain")


def test_no_evaluation_is_an_error_when_it_is_asked_for(urls: list[str]) -> None:
    """An environment without such a split trains all the same."""
    with Spec(urls, tasks=["plain"], eval_split="nowhere") as spec:
        with pytest.raises(InvalidArgument, match="no tasks for evaluation; name their split as eval_split"):
            _ = spec.eval_dataset


def test_datasets_need_their_package(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the datasets do, and the error names the extra."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with Spec(urls, tasks=["plain"]) as spec:
        with pytest.raises(MissingExtra, match=r"pip install 'miroir\[trl\]'"):
            _ = spec.train_dataset
        env = environment(spec, "plain")
        env.say()
        assert env._rollout.grade()["reward"] == 1.0


def test_nothing_of_a_trainer_is_imported(urls: list[str]) -> None:
    """Spec, factories and an episode by hand load no torch, trl, transformers or datasets."""
    code = """
import json, sys
from miroir.records import load
from miroir.trl import Spec
with Spec(sys.argv[1:], tasks=["plain"]) as spec:
    env = spec.environment_factory()
    env.reset(task_id="plain")
    env.say()
    assert spec.reward([[]], [[]], environments=[env]) == [1.0]
print(json.dumps([name for name in ("torch", "trl", "transformers", "datasets") if name in sys.modules]))
"""
    # The held-out task of evaluation shows the same tools, so that there is one factory.
    done = subprocess.run([sys.executable, "-c", code, *urls], capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def calibration(path: Path, **classes: str) -> Path:
    """A calibration file of the troubled tasks."""
    entries = {name.replace("_", "-"): {"task_hash": f"hash-{name}", "class": kind} for name, kind in classes.items()}
    path.write_text(json.dumps({"tasks": entries}))
    return path


def test_a_calibration_chooses_tasks(urls: list[str], tmp_path: Path) -> None:
    """Learnable ones are kept, or those of the classes that are named."""
    path = calibration(tmp_path / "calibration.json", plain="learnable", short="solved", narrow="out_of_reach")
    chosen = ["plain", "short", "narrow"]
    with Spec(urls, tasks=chosen, calibration=path) as spec:
        assert [task["id"] for task in spec.tasks] == ["plain"]
    with Spec(urls, tasks=chosen, calibration=path, keep=("learnable", "solved")) as spec:
        assert [task["id"] for task in spec.tasks] == ["plain", "short"]


def test_a_stale_calibration_is_an_error(urls: list[str], tmp_path: Path) -> None:
    """One of another version of a task is refused, with what to run."""
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"tasks": {"plain": {"task_hash": "older", "class": "learnable"}}}))

    with pytest.raises(RecordError, match=r"of another version \(task_hash\) of plain; run `miroir calibrate`"):
        Spec(urls, tasks=["plain"], calibration=path)


def test_no_container_is_an_error() -> None:
    """Nothing alive: the reason, and what to start."""
    with pytest.raises(ConnectionFailed, match=r"none of 1 containers is alive .*; start them"):
        Spec(["http://127.0.0.1:9"], wait_s=0.1)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"split": "nowhere"}, HttpError, "nowhere"),
        ({"tasks": ["nowhere"]}, InvalidArgument, "there is no task 'nowhere'"),
        ({"tasks": []}, InvalidArgument, "there is no task to train on; name another split, or a coworker model"),
        ({"keep": ("solved",)}, InvalidArgument, "keep chooses by a calibration, and there is none; name its"),
        ({"tasks": "plain"}, InvalidArgument, "tasks is the text 'plain'; pass a list of ids"),
        ({"tasks": [{"id": "held-out"}]}, InvalidArgument, "two tasks .* called 'held-out'"),
        ({"tasks": ["plain", {"id": "mine"}]}, InvalidArgument, "tasks are ids or objects, and these are both; pass"),
        ({"max_chars": 0}, InvalidArgument, "max_chars, void_batches and max_seconds must be at least 1"),
        ({"lease_s": 0}, InvalidArgument, "and lease_s more than 0; correct the numbers"),
        ({"lease_s": float("nan")}, InvalidArgument, "and lease_s more than 0; correct the numbers"),
        ({"void_batches": 0}, InvalidArgument, "max_chars, void_batches and max_seconds must be at least 1"),
        ({"max_seconds": 0}, InvalidArgument, "max_chars, void_batches and max_seconds must be at least 1"),
    ],
)
def test_options_that_cannot_work_are_errors(urls: list[str], options: Any, error: type[Exception], said: str) -> None:
    """Before anything is leased."""
    with pytest.raises(error, match=said):
        Spec(urls, **{"tasks": ["plain"], **options} if "split" not in options else options)


def test_a_folder_that_holds_no_records_is_an_error(urls: list[str], tmp_path: Path) -> None:
    """Before the model is loaded, not after a first batch was played."""
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"file/traces cannot hold records \(Not a directory\); name a folder"):
        Spec(urls, tasks=["plain"], records=tmp_path / "file" / "traces")


def test_a_url_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """As everywhere."""
    with pytest.raises(UrlFileError, match="cannot be read"):
        Spec(tmp_path / "urls.txt")


def test_a_url_file_is_found_from_anywhere(urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a training may stand in other directories; so is the folder of records."""
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    monkeypatch.chdir(tmp_path)
    with Spec(Path("urls.txt"), tasks=["plain"], records="traces") as spec:
        monkeypatch.chdir("/")
        env = environment(spec, "plain")
        assert env._rollout.grade()["reward"] == 0.0
    assert len(list((tmp_path / "traces").iterdir())) == 1


def test_tasks_with_coworkers_need_a_model(urls: list[str]) -> None:
    """They are left out with a warning, and kept where a model is named."""
    with pytest.warns(UserWarning, match="1 of 2 tasks are left out"), Spec(urls, tasks=["plain", "ask"]) as spec:
        assert [task["id"] for task in spec.tasks] == ["plain"]
    model = CoworkerModel("http://127.0.0.1:9/v1", "nobody")
    with Spec(urls, tasks=["plain", "ask"], coworker_model=model, deadlines=Deadlines(coworker_s=1)) as spec:
        assert [task["id"] for task in spec.tasks] == ["plain", "ask"]
        env = environment(spec, "ask")
        env.ask()
        assert env._rollout.grade()["metadata"]["void_reason"].startswith("COWORKER_FAILED: Ann got no answer")
        assert free(urls)


@pytest.mark.usefixtures("datasets")
def test_the_readmes_script_trains(urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ten lines, and all that it uses is there: a stand-in for the trainer plays every row."""
    section = README.read_text().partition("\n## Train with TRL\n")[2]
    script = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    rewards: list[float | None] = []

    class Trainer:
        def __init__(self, model: str, reward: Any, args: Any, data: list[Any], *, environment_factory: Any) -> None:
            self.reward, self.data, self.factory = reward, data, environment_factory

        def train(self) -> None:
            for row in self.data:
                env = self.factory()
                env.reset(**row)
                env.say()
                rewards.extend(self.reward([row["prompt"]], [[]], environments=[env]))

    trl = types.ModuleType("trl")
    config = {"generation_batch_size": 1, "num_generations": 1, "max_completion_length": 4096}
    trl.GRPOConfig = lambda **_: types.SimpleNamespace(**config)  # type: ignore[attr-defined]
    trl.GRPOTrainer = Trainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trl", trl)
    monkeypatch.chdir(tmp_path)
    Path("urls.txt").write_text("\n".join(urls))
    everything = dict.fromkeys(["bad-reset", "bad-grade", "no-reward", "scripted"], "solved")
    calibration(Path("calibration.json"), plain="learnable", short="learnable", narrow="solved", **everything)

    with pytest.warns(UserWarning, match="3 of 10 tasks are left out"):
        exec(script, {})

    assert len([line for line in script.splitlines() if line.strip()]) <= 10
    assert rewards == [1.0, 1.0]
    assert len(list(load([tmp_path / "traces"]))) == 2
