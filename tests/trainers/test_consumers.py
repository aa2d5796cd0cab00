"""Every format, made from the office's own traces, is taken by what it is for: trainers, loaders and validators."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from derive_records import SUBMIT, record, rows, saved
from peers.sites import site
from trainers.environment import interpreter, offline

from miroir.agents import load_agent
from miroir.derive import FORMATS, Options, derive
from miroir.envs.office.environment import Office
from miroir.run import run
from miroir.serve import running

pytestmark = pytest.mark.trainers

HERE = Path(__file__).parent
LIMIT_S = 240.0
CARDS = ("sft", "prompt-completion", "turns", "dpo", "kto", "prompts")


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of the trainers' environment."""
    return interpreter()


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of the office's train tasks: solved by the reference, and tried three times with seeded mistakes."""
    folder = tmp_path_factory.mktemp("traces")
    with running(Office, max_sessions=4) as url:
        for spec, k in (("reference", 1), ("clumsy?rate=0.15", 3)):
            run([url], folder, load_agent(f"miroir.envs.office.agents:{spec}"), k=k, concurrency=4)
    return folder


@pytest.fixture(scope="session")
def made(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The rows of a format, made once."""
    folder = tmp_path_factory.mktemp("rows")

    def rows_of(name: str) -> Path:
        out = folder / f"{name}{'' if FORMATS[name].file_each else '.csv' if name == 'rewards' else '.jsonl'}"
        if not out.exists():
            few = ("correct-figure-1", "correct-figure-2") if name == "turns" else ()
            derive([traces], name, out, Options(tasks=few))
        return out

    return rows_of


@pytest.fixture
def call(python: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a consumer's script in the trainers' environment, without a network."""

    def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, HERE / "consumers" / script, *map(str, arguments)],
            env=offline(tmp_path / "hf"),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run_script


def card(path: Path) -> Path:
    """The card beside the rows."""
    return path.with_name(f"{path.stem}.card.md")


@pytest.mark.parametrize("name", CARDS)
def test_rows_load_as_the_card_says(name: str, made: Any, call: Any, tmp_path: Path) -> None:
    """`datasets.load_dataset` gives back every row as it was written: no key filled in, no number changed."""
    path = made(name)

    done = call("load_rows.py", card(path), tmp_path / "loaded.jsonl")

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "loaded.jsonl") == rows(path)


def test_files_beyond_a_chunk_load(call: Any, tmp_path: Path) -> None:
    """A file over 10 MB whose arguments change their types half-way loads as it was written."""
    tools = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": {}}}
        for name in ("look", "submit")
    ]
    records = []
    for number in range(600):
        odd = {"page": number} if number < 300 else {"page": str(number), "filter": {"deep": [1, "a", None, 1.5]}}
        one = record(f"task-{number}", calls=(("look", odd), SUBMIT), tools=tools)
        one["messages"][2]["content"] = "x" * 20_000
        records.append(one)
    out = tmp_path / "rows.jsonl"
    derive([saved(tmp_path, records)], "sft", out)

    done = call("load_rows.py", card(out), tmp_path / "loaded.jsonl")

    assert out.stat().st_size > 10 << 20
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "loaded.jsonl") == rows(out)


def rounded(value: Any) -> Any:
    """The value with floats rounded: those in JSON columns are a last digit off when `datasets` reads them."""
    return json.loads(json.dumps(value), parse_float=lambda text: round(float(text), 9))


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which another interpreter of this version imports this very miroir."""
    return site(tmp_path_factory.mktemp("package"))


def written_to(out: Path, name: str, traces: Path, package: Path, python: Path) -> subprocess.CompletedProcess[str]:
    """What became of `miroir derive` where pyarrow is."""
    return subprocess.run(
        [python, "-m", "miroir", "derive", traces, "--format", name, "--out", out],
        env=offline(out.parent / "hf", PYTHONPATH=str(package)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_value_that_parquet_cannot_hold(package: Path, python: Path, tmp_path: Path) -> None:
    """It is one line that names the column, and nothing is written."""
    traces = saved(tmp_path, [record(trial=2**70, calls=(("look", {"query": "owner"}),))])
    done = written_to(tmp_path / "rows.parquet", "rewards", traces, package, python)

    assert done.returncode == 2
    assert re.fullmatch(
        r"error: .*a value of trial does not fit into Parquet \(.*\); write JSON lines.*\n", done.stderr
    )
    assert not (tmp_path / "rows.parquet").exists()


@pytest.mark.parametrize("name", ["sft", "dpo", "openai", "atif"])
def test_parquet_loads_as_the_lines_do(
    name: str, traces: Path, made: Any, call: Any, package: Path, python: Path, tmp_path: Path
) -> None:
    """A Parquet file holds the same rows, objects whole, as the JSON lines."""
    out = tmp_path / "rows.parquet"
    written = written_to(out, name, traces, package, python)
    assert written.returncode == 0, written.stderr

    done = call("load_rows.py", card(out), tmp_path / "loaded.jsonl", out)

    assert done.returncode == 0, done.stderr
    keys = list(FORMATS[name].columns)
    loaded, lines = rounded(rows(tmp_path / "loaded.jsonl")), rounded(rows(made(name)))
    assert [{key: row[key] for key in keys} for row in loaded] == [{key: row.get(key) for key in keys} for row in lines]


def test_lengths_in_a_tokenizers_tokens(traces: Path, package: Path, python: Path, tmp_path: Path) -> None:
    """With a tokenizer rows are measured in its tokens, and the report says so."""
    script = f"import tiny_qwen; tiny_qwen.tokenizer(['a b c'], vocabulary=300).save_pretrained({str(tmp_path)!r})"
    environment = offline(tmp_path / "hf", PYTHONPATH=f"{package}:{HERE / 'consumers'}")
    subprocess.run([python, "-c", script], env=environment, check=True, timeout=60, capture_output=True)
    arguments = ["--format", "sft", "--out", tmp_path / "rows.jsonl", "--tokenizer", tmp_path, "--dry-run", "--json"]

    done = subprocess.run(
        [python, "-m", "miroir", "derive", traces, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    lengths = json.loads(done.stdout)["lengths"]
    assert lengths["unit"] == f"tokens of {tmp_path}"
    assert lengths["shortest"] > 10_000  # almost a token a character


@pytest.mark.parametrize("name", ["sft", "prompt-completion", "turns", "dpo", "kto"])
def test_trl_trains_by_the_cards_recipe(name: str, made: Any, call: Any, tmp_path: Path) -> None:
    """The card's code, as it stands, trains a tiny model for a step; only what the assistant wrote carries loss."""
    path = made(name)

    done = call("train_recipe.py", card(path), path, tmp_path / "told.json")

    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["loss"] > 0
    assert told["changed"]
    for trained, row in zip(told["rows"], rows(path), strict=False):
        check_labels(trained, row)


def check_labels(trained: dict[str, str], row: dict[str, Any]) -> None:
    """All calls that are to be learnt carry loss; results, tools, user and system carry none."""
    learnt = row["completion"] if "completion" in row else row["messages"]
    for message in learnt:
        for tool_call in message.get("tool_calls", ()):
            assert json.dumps(tool_call["function"]["arguments"], ensure_ascii=False) in trained["trained"]
    assert trained["trained"].count("<tool_call>") == sum(len(m.get("tool_calls", ())) for m in learnt)
    for word in ("<tool_response>", "<tools>", "<|im_start|>", "null"):
        assert word not in trained["trained"]
    results = [
        m for m in row.get("messages", [*row.get("prompt", ()), *row.get("completion", ())]) if m["role"] == "tool"
    ]
    assert trained["context"].count("<tool_response>") == len(results)


def taken(done: subprocess.CompletedProcess[str]) -> list[int]:
    """The numbers of the rows that a validator took."""
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


@pytest.mark.parametrize("kind", ["atif", "anthropic"])
def test_validators_take_every_row(kind: str, made: Any, call: Any) -> None:
    """Trajectories pass the models of the package `atif`, Anthropic's rows the types of its SDK."""
    path = made(kind)

    done = call("validate.py", kind, path)

    assert taken(done) == list(range(len(rows(path)))), done.stderr


def test_atif_comes_back_through_its_own_models(made: Any, call: Any, tmp_path: Path) -> None:
    """What was read back into a record and written again is valid and the same."""
    from miroir.derive import record_from_atif

    path = made("atif")
    again = tmp_path / "again.jsonl"
    derive([saved(tmp_path, map(record_from_atif, rows(path)))], "atif", again)

    assert taken(call("validate.py", "atif", again)) == list(range(len(rows(path))))
    assert rows(again) == rows(path)


def spoilt(row: dict[str, Any], *place: Any, value: Any = ...) -> dict[str, Any]:
    """The row with one thing in it changed, or taken away."""
    made = copy.deepcopy(row)
    holder: Any = made
    for key in place[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return made


COUNTER_EXAMPLES = {
    "atif": [
        (("steps", 1, "step_id"), 7),
        (("steps", 1, "observation", "results", 0, "source_call_id"), "elsewhere"),
        (("steps", 0, "tool_calls"), []),
        (("reward",), 1.0),
    ],
    "anthropic": [
        (("messages", 0, "role"), "tool"),
        (("messages", 1, "content", 0, "input"), "{}"),
        (("messages", 2, "content", 0, "tool_use_id"), ...),
        (("tools", 0, "input_schema"), ...),
        (("system",), None),
    ],
    "openai": [
        (("messages", 1, "tool_calls", 0, "function", "arguments"), {"query": "x"}),
        (("messages", 1, "weight"), 2),
        (("messages", 1, "weight"), True),
        (("messages", 2, "tool_call_id"), ...),
        (("messages", 0, "weight"), 1),
        (("messages", 0, "role"), "human"),
        (("tools",), []),
        (("tools", 0, "function", "name"), "app.look"),
        (("task_id",), "a"),
    ],
    "axolotl": [
        (("messages", 1, "tool_calls", 0, "function", "arguments"), {"query": "x"}),
        (("messages", 1, "weight"), "yes"),
        (("messages", 2, "tool_call_id"), ...),
        (("messages", 0, "role"), "human"),
        (("messages", 0, "content"), ...),
        (("tools",), "[]"),
        (("tools", 0, "function", "parameters"), ...),
    ],
}


@pytest.mark.parametrize("name", ["openai", "axolotl"])
def test_rows_keep_the_documented_schema(name: str, made: Any, call: Any) -> None:
    """OpenAI's rows keep the schema of its documentation, and Axolotl's, which loads the same rows."""
    path = made("openai")

    done = call("validate.py", HERE / "schemas" / f"{name}.json", path)

    assert taken(done) == list(range(len(rows(path)))), done.stderr


@pytest.mark.parametrize("kind", COUNTER_EXAMPLES)
def test_validators_refuse_what_is_wrong(kind: str, made: Any, call: Any, tmp_path: Path) -> None:
    """Each way to spoil a row is found: the validators have teeth."""
    good = rows(made("openai" if kind == "axolotl" else kind))[0]
    validator = HERE / "schemas" / f"{kind}.json" if kind in ("openai", "axolotl") else kind

    bad = [spoilt(good, *place, value=value) for place, value in COUNTER_EXAMPLES[kind]]

    done = call("validate.py", validator, saved(tmp_path, [good, *bad]))

    assert taken(done) == [0], done.stderr


def test_sharegpt_keeps_llama_factorys_rules(made: Any) -> None:
    """Odd places are human or observation, even ones gpt or function_call; calls are JSON of a name and arguments."""
    for row in rows(made("sharegpt")):
        names = [turn["from"] for turn in row["conversations"]]
        assert set(names[::2]) <= {"human", "observation"}
        assert set(names[1::2]) <= {"gpt", "function_call"}
        assert len(names) % 2 == 0
        calls = [json.loads(turn["value"]) for turn in row["conversations"] if turn["from"] == "function_call"]
        assert all(set(each) == {"name", "arguments"} for each in calls)
        assert {each["name"] for each in calls} <= {tool["name"] for tool in json.loads(row["tools"])}


def test_session_traces_keep_the_hubs_format(made: Any) -> None:
    """Each file begins with a session's header, and each later line is a message."""
    files = list(made("hub").iterdir())
    assert files
    for file in files:
        header, *messages = rows(file)
        assert header["type"] == "session"
        assert {"harness", "id"} <= header.keys()
        assert all(line["type"] == "message" and "role" in line["message"] for line in messages)


def test_the_interpreters_agree(python: Path) -> None:
    """The trainers' environment runs the Python that these tests run."""
    done = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == [str(part) for part in sys.version_info[:2]]
