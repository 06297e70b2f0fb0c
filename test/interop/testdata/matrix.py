"""Unpacks published tables, and reads many tables with one engine and prints a digest of the rows of each.

    python matrix.py unpack SOURCE TARGET
    python matrix.py read ENGINE < tables.json

SOURCE is a folder of .tar.zst archives and plain folders; each becomes a folder of its name in TARGET. ENGINE: datafusion,
pyarrow, polars, duckdb, or arrow, which reads what our reader read from the Arrow file beside the table's name. tables.json is
a list of paths. Each answer is a line of JSON: {"table", "rows", "digest"} or {"table", "error"}.

The digest is that of the rows in a canonical form: one JSON object a row with sorted keys, the rows sorted; decimals as text with
all digits of their scale, timestamps with six fraction digits and "Z" if they have a zone, binary in hex, maps as sorted pairs.
Tables of very many rows are told by their columns' numbers of values, least and greatest ones.
"""
import datetime
import functools
import glob
import hashlib
import json
import math
import os
import shutil
import sys
import tarfile

import pyarrow as pa
import pyarrow.compute as pc

MANY = 50_000


def unpack(source, target):
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name.startswith("300k"):  # as large as all others together
            continue
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(target, name))
        elif name.endswith(".tar.zst"):
            with pa.CompressedInputStream(pa.OSFile(path), "zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                tar.extractall(os.path.join(target, name[: -len(".tar.zst")]), filter="data")


def value(v, t):
    if v is None:
        return None
    if pa.types.is_dictionary(t):
        t = t.value_type
    if pa.types.is_struct(t):
        return {f.name: value(v[f.name], f.type) for f in t}
    if pa.types.is_map(t):
        pairs = [[value(k, t.key_type), value(x, t.item_type)] for k, x in (v.items() if isinstance(v, dict) else v)]
        return sorted(pairs, key=lambda p: json.dumps(p[0], ensure_ascii=False, sort_keys=True))
    if isinstance(v, list):
        return [value(x, t.value_type) for x in v]
    if pa.types.is_decimal(t):
        return format(v, f".{t.scale}f")
    if isinstance(v, float):
        return v if math.isfinite(v) else repr(v)
    if isinstance(v, bytes):
        return v.hex()
    if isinstance(v, datetime.datetime):
        text = v.astimezone(datetime.timezone.utc).replace(tzinfo=None) if v.tzinfo else v
        return text.isoformat(timespec="microseconds") + ("Z" if v.tzinfo else "")
    if isinstance(v, datetime.date):
        return v.isoformat()
    return v


def micros(t):
    """The same type with timestamps in microseconds."""
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(micros(t.value_type))
    if pa.types.is_map(t):
        return pa.map_(micros(t.key_type), micros(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, micros(f.type)) for f in t])
    return t


def digest(table):
    if table.num_rows > MANY:
        parts = []
        for field, column in sorted(zip(table.schema, table.columns), key=lambda c: c[0].name):
            if pa.types.is_decimal(field.type):
                column = column.cast(pa.decimal128(38, field.type.scale))
            least = pc.min_max(column).as_py()
            parts.append([field.name, len(column) - column.null_count, str(least["min"]), str(least["max"])])
        return "many " + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    columns = []
    for field, column in zip(table.schema, table.columns):
        t = field.type
        if isinstance(t, pa.BaseExtensionType):
            column = pa.chunked_array([c.storage for c in column.chunks], t.storage_type)
            t = t.storage_type
        if micros(t) != t:
            t = micros(t)
            column = column.cast(t, safe=False)
        columns.append((field.name, [value(v, t) for v in column.to_pylist()]))
    rows = sorted(json.dumps({n: c[i] for n, c in columns}, ensure_ascii=False, sort_keys=True) for i in range(table.num_rows))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def read_datafusion(path):
    from deltalake import DeltaTable, QueryBuilder

    return pa.table(QueryBuilder().register("t", DeltaTable(path)).execute("select * from t").read_all())


def read_pyarrow(path):
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table()


def read_polars(path):
    import polars as pl

    return pl.scan_delta(path).collect().to_arrow()


@functools.cache
def duckdb_connection():
    import duckdb

    found = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/duckdb_ext*/extensions/**/delta.duckdb_extension"), recursive=True)
    con = duckdb.connect()
    con.execute(f"LOAD '{found[0]}'")
    con.execute("SET TimeZone='UTC'")
    return con


def read_duckdb(path):
    try:
        return duckdb_connection().execute(f"SELECT * FROM delta_scan('{path}')").to_arrow_table()
    except BaseException:
        duckdb_connection.cache_clear()  # an internal error ends the whole database
        raise


def read_arrow(path):
    with pa.OSFile(path + ".arrow") as f:
        return pa.ipc.open_file(f).read_all()


def main():
    if sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3])
        return
    read = globals()["read_" + sys.argv[2]]
    for path in json.load(sys.stdin):
        try:
            table = read(path)
            answer = {"rows": table.num_rows, "digest": digest(table)}
        except BaseException as e:  # engines raise panics as BaseException
            if isinstance(e, (KeyboardInterrupt, SystemExit)):
                raise
            answer = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps({"table": path, **answer}), flush=True)
    os._exit(0)  # delta-rs with pyarrow has been seen to abort at the exit of the interpreter


main()
