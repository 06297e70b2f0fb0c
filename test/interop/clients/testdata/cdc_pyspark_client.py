#!/usr/bin/env python3
"""The client layer of mssql-cdc-pyspark 0.8.0 without Spark: every statement of its planner and its readers, once. Prints one JSON document.

Arguments: options as JSON, a capture instance, rows a chunk. With a fourth argument "drain" it only reads the changes of the instance and
says how many there were, how long that took, and what it cost.
"""
import datetime
import decimal
import importlib.util
import json
import resource
import sys
import time
import types

# The package itself imports PySpark; its client layer does not need it.
package = types.ModuleType("mssql_cdc")
package.__path__ = list(importlib.util.find_spec("mssql_cdc").submodule_search_locations)
sys.modules["mssql_cdc"] = package
from mssql_cdc.client import make_client, plan_chunks, snapshot_plan  # noqa: E402


def text(v):
    if v is None:
        return None
    if isinstance(v, bool):
        return "1" if v else "0"
    if isinstance(v, decimal.Decimal):
        return format(v, "f")
    if isinstance(v, datetime.datetime):
        return v.isoformat(sep=" ")
    if isinstance(v, bytes):
        return "0x" + v.hex().upper()
    return str(v)


def rows(batches):
    return [[text(v) for v in row] for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns))]


def tried(call, *args):
    try:
        return call(*args)
    except Exception as error:  # what it says of it is the result
        return {"error": type(error).__name__, "message": str(error)}


def bound(v):
    return None if v is None else tuple(v) if isinstance(v, (list, tuple)) else (v,)


def drain(client, instance):
    columns = [i for i in client.capture_instances(instance) if i.name == instance][0].columns
    low, high = client.min_lsn(instance), client.max_lsn()
    count, begin, first = 0, time.monotonic(), None
    for batch in client.iter_changes(instance, low, high, columns, True, 10000):
        first = first or time.monotonic()
        count += batch.num_rows
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"rows": count, "seconds": time.monotonic() - begin, "cpu_seconds": usage.ru_utime + usage.ru_stime,
                      "peak_rss_kib": usage.ru_maxrss}))


def main():
    client = make_client(json.loads(sys.argv[1]))
    instance, chunk_rows = sys.argv[2], int(sys.argv[3])
    if sys.argv[4:] == ["drain"]:
        return drain(client, instance)
    low, high = client.min_lsn(instance), client.max_lsn()
    source = client.source_table(instance)
    here = [i for i in client.capture_instances(instance) if i.name == instance][0]
    types_ = client.key_types(instance, source.keys)
    out = {
        "clock": client.clock(), "min_lsn": low, "max_lsn": high,
        "around": [client.decrement_lsn(client.increment_lsn(low)), client.increment_lsn(high)],
        "third": client.nth_commit_after(low, 3),
        "commit_time": client.lsn_to_time(high),
        "splits": client.split_points(instance, low, high, 4),
        "source": [source.schema, source.table, source.keys, source.start_lsn],
        "columns": here.columns, "computed": list(here.computed), "captured": client.captured_columns(instance),
        "instances": [[i.name, i.start_lsn] for i in client.capture_instances(instance)],
        "ddl": [[d.lsn, d.command] for d in client.ddl_history(instance, low, high)],
        "present": client.present_columns(instance, here.columns + ["no_such"]),
        "estimate": client.row_estimate(source.schema, source.table),
        "range": [text(v) for v in client.key_range(source.schema, source.table, source.keys[0])],
        "top": [text(v) for v in client.key_max(source.schema, source.table, source.keys)],
        "tiles": [[text(v) for v in t] for t in client.key_tiles(source.schema, source.table, source.keys, 3)],
        "buckets": [[text(v) for v in b] for b in client.key_buckets(source.schema, source.table, source.keys[0], "int", 10)],
        "changes": rows(client.iter_changes(instance, low, high, here.columns, True, 100)),
        "ping": len(client.ping()), "wait": client.network_wait_ms(),
        "unknown": tried(client.source_table, "dbo_nosuch"),
    }
    out["at_time"] = client.time_to_lsn(datetime.datetime.fromisoformat(out["commit_time"].rstrip("Z")))
    out["chunks"] = []
    for isolation in (None, "snapshot"):
        chunks = plan_chunks(client, instance, source, snapshot_plan(client, instance, source), chunk_rows, isolation)
        casts = None if all(isinstance(b, int) or b is None for c in chunks for b in c) else types_
        out["chunks"].append([rows(client.iter_table(source.schema, source.table, source.keys, source.keys, casts, bound(lo), bound(hi), 100, isolation))
                              for lo, hi in chunks])
    client.close()
    print(json.dumps(out))


main()
