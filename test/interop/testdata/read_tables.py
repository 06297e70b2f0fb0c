"""Reads Delta tables with one engine and prints every value in a form that can be compared as text.

    python read_tables.py ENGINE < request.json

ENGINE: datafusion (delta-rs' own scan), pyarrow (what pandas users of delta-rs get), duckdb, spark. The request is a list of
{"path": ..., "where": [[column, operator, kind, value], ...]}, kinds are text, integer and time (UTC, no zone). The answer is one line
of JSON: a list of {"columns": [...], "rows": [[...]], "count": n}, where count is what the engine's COUNT(*) says. See canon().
"""
import datetime
import glob
import json
import os
import struct
import sys

import pyarrow as pa


def canon(column):
    """The values of an Arrow column as text: times in microseconds and dates in days since 1970, floats as their bits, binary in hex."""
    t = column.type
    if pa.types.is_timestamp(t):
        return ["t:%d" % v if v is not None else None for v in column.cast(pa.timestamp("us", t.tz)).cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(t):
        return ["d:%d" % v if v is not None else None for v in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_boolean(t):
        return [None if v is None else "true" if v else "false" for v in column.to_pylist()]
    if pa.types.is_float32(t):
        return [None if v is None else struct.pack(">f", v).hex() for v in column.to_pylist()]
    if pa.types.is_float64(t):
        return [None if v is None else struct.pack(">d", v).hex() for v in column.to_pylist()]
    if pa.types.is_decimal(t):
        return [None if v is None else format(v, "f") for v in column.to_pylist()]
    if pa.types.is_integer(t):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return column.to_pylist()
    return [None if v is None else "0x" + bytes(v).hex().upper() for v in column.to_pylist()]


def sql(where):
    def literal(kind, value):
        if kind == "integer":
            return str(int(value))
        text = "'" + value.replace("'", "''") + "'"
        return {"time": "TIMESTAMP_NTZ " if sys.argv[1] == "spark" else "TIMESTAMP ", "text": ""}[kind] + text

    return " AND ".join(f"{column} {operator} {literal(kind, value)}" for column, operator, kind, value in where)


def read_datafusion(path, where):
    from deltalake import DeltaTable, QueryBuilder

    run = QueryBuilder().register("t", DeltaTable(path)).execute
    suffix = " WHERE " + sql(where) if where else ""
    count = pa.table(run("SELECT COUNT(*) AS n FROM t" + suffix).read_all())["n"][0].as_py()
    return pa.table(run("SELECT * FROM t" + suffix).read_all()), count


def read_pyarrow(path, where):
    from deltalake import DeltaTable

    table = DeltaTable(path)
    convert = {"integer": int, "text": str, "time": datetime.datetime.fromisoformat}
    filters = [(column, operator, convert[kind](value)) for column, operator, kind, value in where]
    rows = table.to_pyarrow_table(filters=filters or None)
    return rows, rows.num_rows


def read_duckdb(path, where):
    import duckdb

    found = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/duckdb_ext*/extensions/**/delta.duckdb_extension"), recursive=True)
    con = duckdb.connect()
    con.execute(f"LOAD '{found[0]}'")
    con.execute("SET TimeZone='UTC'")
    suffix = " WHERE " + sql(where) if where else ""
    count = con.execute(f"SELECT COUNT(*) FROM delta_scan('{path}'){suffix}").fetchone()[0]
    return con.execute(f"SELECT * FROM delta_scan('{path}'){suffix}").to_arrow_table(), count


def spark_session():
    from pyspark.sql import SparkSession

    conf = {
        "spark.jars": ",".join(sorted(glob.glob(os.path.join(sys.prefix, "delta-jars", "*.jar")))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def read_spark(path, where):
    spark = spark_session()  # the one there is, after the first call
    frame = spark.read.format("delta").load(path)
    if where:
        frame = frame.where(sql(where))
    spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()  # it stumbles over things that reading does not
    return frame.toArrow(), frame.count()


def main():
    read = globals()["read_" + sys.argv[1]]
    out = []
    for request in json.load(sys.stdin):
        table, count = read(request["path"], request.get("where") or [])
        columns = [canon(table.column(i)) for i in range(table.num_columns)]
        out.append({"columns": table.column_names, "rows": list(map(list, zip(*columns))), "count": count})
    print(json.dumps(out), flush=True)
    os._exit(0)  # delta-rs with pyarrow has been seen to abort at the exit of the interpreter


main()
