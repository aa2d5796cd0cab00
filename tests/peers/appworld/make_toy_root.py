"""Build a tiny, self-made AppWorld root that the REAL `appworld serve environment` accepts.

Run with the interpreter of a venv that has `appworld==0.1.3.post1` and where
`appworld install` was run (offline; it unpacks code shipped inside the wheel):

    /path/venv/bin/python make_toy_root.py ROOT [N_TASKS]

Nothing here is AppWorld's benchmark data: empty app databases are created from the
installed package's own table definitions, the people, tasks and checks are ours.
ROOT must not contain the substring "memory" (appworld tests paths for it).
"""

import json
import os
import sys
from pathlib import Path

root = str(Path(sys.argv[1]).resolve())
n_tasks = int(sys.argv[2]) if len(sys.argv) > 2 else 3
assert "memory" not in root
DATA = Path(root) / "data"
DATA.mkdir(parents=True)
(Path(root) / "experiments" / "outputs").mkdir(parents=True)
os.environ["APPWORLD_ROOT"] = root
os.chdir(root)

from appworld import update_root  # noqa: E402

update_root(root)
from appworld.apps import get_all_apps  # noqa: E402
from appworld.apps.model_lib import CachedDBHandler, get_db_home_path  # noqa: E402
from appworld.collections.api_docs import ApiDocCollection  # noqa: E402
from appworld.collections.models import ModelCollection  # noqa: E402
from appworld.common.constants import DB_VERSION  # noqa: E402

APPS = get_all_apps()  # admin + 11 public apps


def put(path, value, raw=False):
    file = DATA / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if raw else json.dumps(value), encoding="utf-8")


# 1. API docs, generated from the installed package (never commit these).
docs = ApiDocCollection.build(load_apps=tuple(a for a in APPS if a != "admin"))
for app_name, api_docs in docs.items():
    put(f"api_docs/standard/{app_name}.json", {name: {**doc, "canary_string": "toy"} for name, doc in api_docs.items()})

# 2. Empty base databases, one sqlite file per app.
base_home = get_db_home_path(storage_type="disk", type="base")
Path(base_home).mkdir(parents=True, exist_ok=True)
ModelCollection.load(to_db_home_path=base_home, load_apps=list(APPS), create_db=True)
CachedDBHandler.reset()

# 3. Toy tasks.
EVALUATION = """\
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("the answer matches the private number"):
        test.answer(models.end.supervisor.Task.all()[0].to_dict()["answer"].strip('"'), str(ground_truth_answer))
    with test("no note was added"):
        test.case(models.changed_model_names(), "==", set())
"""
ids = []
for n in range(1, n_tasks + 1):
    task_id = f"toy{n:03d}x_1"
    ids.append(task_id)
    person = {
        "first_name": f"Ada{n}",
        "last_name": "Toy",
        "email": f"ada{n}@example.com",
        "phone_number": f"555000{n:04d}",
    }
    instruction = f"What is {n} + 1? Complete the task with the number."
    put(
        f"tasks/{task_id}/specs.json",
        {
            "instruction": instruction,
            "supervisor": person,
            "datetime": "2023-05-18T12:00:00",
            "db_version": DB_VERSION,
            "canary_string": "toy",
        },
    )
    mem = get_db_home_path(storage_type="memory", type="task_input", task_id=task_id)
    models = ModelCollection.load(to_db_home_path=mem, from_db_home_path=base_home, load_apps=list(APPS))
    models.start_db_tracker()
    sup = models.supervisor.Supervisor(**person, birthday="1990-01-01")
    sup.save()
    models.supervisor.Task(supervisor_id=sup.id, instruction=instruction).save()
    models.supervisor.AccountPassword(supervisor_id=sup.id, account_name="simple_note", password="secret1").save()
    models.admin.MainUser(**person, birthday="1990-01-01").save()
    models.simple_note.User(
        first_name=person["first_name"],
        last_name=person["last_name"],
        email=person["email"],
        password="secret1",
        verified=True,
    ).save()
    models.save(
        str(DATA / "tasks" / task_id / "dbs"),
        format="changes",
        app_names=list(APPS),
        delete_if_exists=True,
        save_model_hashes=True,
    )
    CachedDBHandler.reset()
    gt = f"tasks/{task_id}/ground_truth/"
    put(
        gt + "metadata.json",
        {
            "mode": "minimal",
            "difficulty": 1,
            "num_apps": 1,
            "num_apis": 1,
            "num_api_calls": 1,
            "num_solution_code_lines": 1,
        },
    )
    put(gt + "public_data.json", {})
    put(gt + "private_data.json", {})
    put(gt + "answer.json", n + 1)
    put(
        gt + "test_data.json",
        [
            {"requirement": "the answer matches the private number", "label": "no_op_fail"},
            {"requirement": "no note was added", "label": "no_op_pass"},
        ],
    )
    put(gt + "evaluation.py", EVALUATION, raw=True)

put("datasets/train.txt", "\n".join(ids) + "\n", raw=True)
put("datasets/dev.txt", f"{ids[0]}:easy\n\n{ids[-1]}\n", raw=True)
print(root, ids)
