"""Merges the changes of a case with deltalake and prints its measure as a line of JSON.

    python peer.py DIR BRONZE VERSION

DIR is the benchmark's folder, BRONZE the name of a table of changes in it; the silver table has its versions up to VERSION. See measure in
measure.go. The rows to merge, the latest of each key, are in memory before the clock starts.
"""
import json
import os
import shutil
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


def status(name):
    try:
        with open("/proc/self/status") as f:
            return [int(line.split()[1]) * 1024 / 1e6 for line in f if line.startswith(name + ":")][0]
    except OSError:
        return 0


def source(bronze, version, columns):
    """The latest rows of the keys that changed after a version."""
    before = DeltaTable(bronze, version=version)
    applied = pc.max(before.to_pyarrow_table(columns=["_start_lsn"])["_start_lsn"]).as_py()
    rows = DeltaTable(bronze).to_pyarrow_table(filters=[("_start_lsn", ">", applied)])
    rows = rows.sort_by([("_start_lsn", "ascending"), ("_command_id", "ascending")])
    rows = rows.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    last = rows.group_by("id").aggregate([("place", "max")])["place_max"]
    return rows.take(last).select(columns).combine_chunks()


def main(folder, bronze, version):
    path = f"{folder}/peer-{bronze}"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(f"{folder}/{bronze}-silver-copy_on_write", path, copy_function=os.link)
    rows = source(f"{folder}/{bronze}", int(version), [f.name for f in DeltaTable(path).schema().fields])
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")  # the peak counts from here on
    except OSError:
        pass
    resident, wall, cpu = status("VmRSS"), time.perf_counter(), time.process_time()
    done = (DeltaTable(path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all().when_not_matched_insert_all().execute())
    wall, cpu, peak = time.perf_counter() - wall, time.process_time() - cpu, status("VmHWM")
    total = DeltaTable(path).to_pyarrow_table(columns=["total"])["total"]
    print(json.dumps({
        "wall_seconds": wall, "cpu_seconds": cpu, "peak_rss_mb": peak, "above_mb": peak - resident,
        "changes": done["num_target_rows_updated"] + done["num_target_rows_inserted"], "commits": 1,
        "answer": [len(total), int(pc.sum(total).as_py() * 100)],
    }), flush=True)
    shutil.rmtree(path)


main(*sys.argv[1:])
os._exit(0)  # deltalake with pyarrow has been seen to abort at the exit of the interpreter
