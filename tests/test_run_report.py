"""What a run tells."""

from __future__ import annotations

from typing import Any

from miroir.run import Progress, Report


def record(reward: float | None, split: str | None = "train", **metadata: Any) -> dict[str, Any]:
    """A record as far as a report reads it."""
    return {"task_id": "t", "split": split, "reward": reward, "metadata": metadata}


def test_progress_has_a_rate_once_there_is_one() -> None:
    """Rollouts a second, and the time left at this rate."""
    now = Progress(done=10, total=40, successes=5, void=1, elapsed_s=5.0)

    assert (now.rate, now.left_s) == (2.0, 15.0)
    assert (Progress(0, 40, 0, 0, 5.0).left_s, Progress(0, 40, 0, 0, 0.0).rate) == (None, 0.0)


def test_totals_are_over_graded_rollouts() -> None:
    """Void records are counted, and no share or mean has them in it."""
    report = Report()
    for each in (
        record(1.0, success=True, harm=False),
        record(0.5, success=False, harm=True),
        record(None, success=False, harm=True),
        record(None, None),
    ):
        report.add(each)

    assert report.table() == (
        "split  tasks  graded  success  reward  harm  void\n"
        "-          1       0        -       -     -     1\n"
        "train      1       2     0.50    0.75  0.50     1"
    )


def test_a_report_is_json_too() -> None:
    """The same columns by name, with None where nothing is graded, and the counts beside them."""
    report = Report(earlier=3)
    report.add(record(0.5, success=True, harm=False))
    report.add(record(None, "eval"))
    report.give_up(record(None, void_reason="lost"))

    assert report.as_json() == {
        "splits": {
            "eval": {"tasks": 1, "graded": 0, "success": None, "reward": None, "harm": None, "void": 1},
            "train": {"tasks": 1, "graded": 1, "success": 1.0, "reward": 0.5, "harm": 0.0, "void": 0},
        },
        "earlier": 3,
        "unfinished": 1,
        "reasons": {"lost": 1},
    }


def test_reasons_of_what_stays_void_are_counted() -> None:
    """The reasons of last attempts are counted, each on one line, long ones cut."""
    report = Report()
    for reason in ("x" * 300, "x" * 250, "first\n  second"):
        report.give_up(record(None, void_reason=reason))

    assert (report.unfinished, report.reasons) == (3, {"x" * 200: 2, "first second": 1})
