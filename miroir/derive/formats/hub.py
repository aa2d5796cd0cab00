"""Session traces, which the Hugging Face Hub shows in its viewer: a file for each episode.

https://huggingface.co/docs/hub/session-traces-format
"""

from __future__ import annotations

from .form import Column, Example, Format, Kind, Row

_HARNESS = "miroir"


def _rows(example: Example) -> list[Row]:
    header = {"type": "session", "harness": _HARNESS, "id": example.ids["episode_id"], "name": example.ids["task_id"]}
    return [header, *({"type": "message", "message": message} for message in example.spoken.messages)]


HUB = Format(
    name="hub",
    about="session traces for the Hugging Face Hub's viewer, a file for each episode in a folder",
    kind=Kind.EPISODES,
    columns={"type": Column.TEXT, "message": Column.OBJECT},
    rows=_rows,
    whole=True,
    file_each=True,
    recipe="# Upload the folder {file} to a dataset; the Hub shows each file as a session.\n",
)
