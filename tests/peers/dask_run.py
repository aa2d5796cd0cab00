"""A run over Dask's workers, as a user writes it: `dask_run.py URLS OUT`, in an interpreter that has distributed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from distributed import Client, LocalCluster

from miroir.agents import load_agent
from miroir.run import run
from miroir.urls import read_urls

if __name__ == "__main__":
    urls, out = sys.argv[1:]
    assert len(read_urls(urls)) == 8
    with (
        LocalCluster(n_workers=4, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pids = set(client.run(lambda: __import__("os").getpid()).values())
        report = run(
            Path(urls),
            out,
            load_agent("miroir.envs.office.agents:reference"),
            token_env="OFFICE_TOKEN",
            task_ids=json.loads(sys.stdin.read()),
            k=5,
            executor=client.get_executor(),
        )
    print(json.dumps({"workers": len(pids), **report.as_json()}))
