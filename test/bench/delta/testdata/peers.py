"""Runs one case of the benchmark with deltalake and prints its measure as a line of JSON.

    python peers.py DIR CASE ARGUMENT

DIR is the benchmark's folder, ARGUMENT the number of batches or the name of a prepared table. See measure in measure.go.
"""
import glob
import json
import os
import shutil
import statistics
import sys
import time

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

COMMITS = 11


def status(name):
    try:
        with open("/proc/self/status") as f:
            return [int(line.split()[1]) * 1024 / 1e6 for line in f if line.startswith(name + ":")][0]
    except OSError:
        return 0


class Clock:
    def __init__(self):
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass
        self.resident, self.cpu, self.regions = status("VmRSS"), 0.0, []

    def __enter__(self):
        self.w, self.c = time.perf_counter(), time.process_time()

    def __exit__(self, *_):
        self.regions.append(time.perf_counter() - self.w)
        self.cpu += time.process_time() - self.c

    def report(self, answer, each=False, **more):
        n = len(self.regions)
        wall, cpu = (statistics.median(self.regions), self.cpu / n) if each else (sum(self.regions), self.cpu)
        print(json.dumps({"wall_seconds": wall, "cpu_seconds": cpu, "operations": n if each else 0, "answer": answer,
                          "above_input_mb": status("VmHWM") - self.resident, **more}), flush=True)


def load(folder, n):
    return load_file(f"{folder}/rows/{n:05d}.arrow")


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    return path


def size(path):
    return sum(os.path.getsize(f) for f in glob.glob(f"{path}/*.parquet"))


def rows(path):
    return sum(pa.table(DeltaTable(path).get_add_actions()).column("num_records").to_pylist())


def clone(folder, table, name):
    path = fresh(f"{folder}/{name}-deltalake")
    shutil.copytree(f"{folder}/{table}", path, copy_function=os.link)
    return path


def load_file(path):
    with open(path, "rb") as f:
        return pa.ipc.open_file(pa.py_buffer(f.read())).get_batch(0)


def append(folder, batches):
    path, clock = fresh(f"{folder}/append-deltalake"), Clock()
    for n in range(int(batches)):
        batch = pa.table(load(folder, n))
        with clock:
            write_deltalake(path, batch, mode="append")
    clock.report(rows(path), bytes=size(path))


def stream(folder, batches):
    inputs = [load(folder, n) for n in range(int(batches))]
    path, clock = fresh(f"{folder}/stream-deltalake"), Clock()
    with clock:
        write_deltalake(path, pa.RecordBatchReader.from_batches(inputs[0].schema, inputs), mode="append")
    clock.report(rows(path), bytes=size(path))


def commit(folder, log):
    path = clone(folder, log, "commit")
    row = pa.table(load_one(folder))
    table = DeltaTable(path)
    files, clock = len(table.file_uris()), Clock()
    for _ in range(COMMITS):
        with clock:
            write_deltalake(table, row, mode="append")
    clock.report(files, each=True, bytes=size(path))


def load_one(folder):
    return load_file(f"{folder}/one.arrow")


def checkpoint(folder, log):
    path = clone(folder, log, "checkpoint")
    write_deltalake(path, pa.table(load_one(folder)), mode="append")
    table = DeltaTable(path)
    clock = Clock()
    with clock:
        table.create_checkpoint()
    written = f"{path}/_delta_log/{table.version():020d}.checkpoint.parquet"
    clock.report(table.version(), bytes=os.path.getsize(written))


def appender(folder, log):
    path = clone(folder, log, "appender")
    table = DeltaTable(path)
    inputs = [pa.table(load(folder, n)) for n in range(10)]
    clock = Clock()
    for batch in inputs:
        with clock:
            write_deltalake(table, batch, mode="append")
    table = DeltaTable(path)
    clock.report(table.version(), bytes=size(path))


def merge(folder, count):
    path = clone(folder, "merge-target", "merge")
    before, source = size(path), pa.table(load_file(f"{folder}/merge-source-{count}.arrow"))
    clock = Clock()
    with clock:
        (DeltaTable(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
         .when_matched_update_all().when_not_matched_insert_all().execute())
    clock.report(rows(path), bytes=size(path) - before)


def open_table(folder, log):
    clock = Clock()
    with clock:
        files = len(DeltaTable(f"{folder}/{log}").file_uris())
    clock.report(files)


CASES = {"append": append, "stream": stream, "commit": commit, "checkpoint": checkpoint, "appender": appender, "merge": merge, "open": open_table}

CASES[sys.argv[2]](sys.argv[1], *sys.argv[3:])
os._exit(0)  # deltalake with pyarrow has been seen to abort at the exit of the interpreter
