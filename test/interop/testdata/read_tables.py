"""Reads Delta tables with one engine and prints every value in a form that can be compared as text.

    python read_tables.py ENGINE < request.json

ENGINE: datafusion (delta-rs' own scan), pyarrow (what pandas users of delta-rs get), polars, duckdb, spark. The request is a list of
{"path": ..., "where": [[column, operator, kind, value], ...], "extremes": bool, "apps": [...]}, kinds are text, integer and time (UTC,
no zone). The answer is one line of JSON: a list of {"columns": [...], "types": [...], "rows": [[...]], "count": n, "extremes": [...],
"info": {...}}, where types are Delta's names and count is what the engine's COUNT(*) says. See canon(), extremes() and info().
"""
import datetime
import glob
import json
import os
import struct
import sys

import pyarrow as pa
import pyarrow.compute as pc


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


def read_polars(path, where):
    import polars as pl

    frame = pl.scan_delta(path)
    types = frame.collect_schema()
    convert = {"integer": int, "text": str, "time": datetime.datetime.fromisoformat}
    for column, operator, kind, value in where:
        expr = pl.col(column)
        literal = pl.lit(convert[kind](value)) if kind != "time" else pl.lit(convert[kind](value)).cast(types[column])
        frame = frame.filter({">": expr > literal, ">=": expr >= literal, "<=": expr <= literal}[operator])
    return frame.collect().to_arrow(), frame.select(pl.len()).collect().item()


def connect_duckdb():
    import duckdb

    found = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/duckdb_ext*/extensions/**/delta.duckdb_extension"), recursive=True)
    con = duckdb.connect()
    con.execute(f"LOAD '{found[0]}'")
    con.execute("SET TimeZone='UTC'")
    return con


def read_duckdb(path, where):
    con = connect_duckdb()
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


NAMES = {
    pa.bool_(): "boolean", pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer", pa.int64(): "long", pa.float32(): "float",
    pa.float64(): "double", pa.string(): "string", pa.large_string(): "string", pa.string_view(): "string", pa.binary(): "binary",
    pa.large_binary(): "binary", pa.binary_view(): "binary", pa.date32(): "date",
}


def type_name(t):
    if pa.types.is_decimal(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return "timestamp" if t.tz else "timestamp_ntz"
    return NAMES.get(t, str(t))


def literal(v, t):
    """A value of an Arrow type in SQL, of exactly that type."""
    text = str(v).replace("'", "''")
    if pa.types.is_timestamp(t):
        text = v.replace(tzinfo=None).isoformat(timespec="microseconds")
        if sys.argv[1] == "datafusion":
            return f"arrow_cast('{text}{'Z' if t.tz else ''}', 'Timestamp(Microsecond, {'Some(' + chr(34) + t.tz + chr(34) + ')' if t.tz else 'None'})')"
        return f"TIMESTAMPTZ '{text}+00'" if t.tz else f"TIMESTAMP '{text}'"
    if pa.types.is_date32(t):
        return f"CAST('{text}' AS DATE)"
    if pa.types.is_decimal(t):
        return f"CAST('{format(v, 'f')}' AS DECIMAL({t.precision},{t.scale}))"
    if pa.types.is_floating(t):
        return f"CAST('{v!r}' AS {'REAL' if t == pa.float32() else 'DOUBLE'})"
    return str(v).lower() if pa.types.is_boolean(t) else str(v) if pa.types.is_integer(t) else f"'{text}'"


def counter(path):
    """A function that counts the rows where (column, operator, value, type) holds, through the engine's own pruning."""
    engine = sys.argv[1]
    if engine in ("datafusion", "duckdb"):
        if engine == "duckdb":
            con = connect_duckdb()
            ask = lambda where: con.execute(f"SELECT COUNT(*) FROM delta_scan('{path}') WHERE {where}").fetchone()[0]
        else:
            from deltalake import DeltaTable, QueryBuilder

            run = QueryBuilder().register("t", DeltaTable(path)).execute
            ask = lambda where: pa.table(run(f"SELECT COUNT(*) AS n FROM t WHERE {where}").read_all())["n"][0].as_py()
        return lambda column, operator, v, t: ask(f'"{column}" {operator} {literal(v, t)}')
    if engine == "polars":
        import polars as pl

        frame = pl.scan_delta(path)
        types = frame.collect_schema()

        def count(column, operator, v, t):
            value = pl.lit(v, dtype=types[column])
            expr = {"=": pl.col(column) == value, "<": pl.col(column) < value, ">": pl.col(column) > value}[operator]
            return frame.filter(expr).select(pl.len()).collect().item()

        return count
    from deltalake import DeltaTable

    dataset = DeltaTable(path).to_pyarrow_dataset()

    def count_pyarrow(column, operator, v, t):
        value = pa.scalar(v, dataset.schema.field(column).type)
        expr = {"=": pc.field(column) == value, "<": pc.field(column) < value, ">": pc.field(column) > value}[operator]
        return dataset.count_rows(filter=expr)

    return count_pyarrow


def extremes(path, table):
    """[column, condition, rows by the values, rows that the engine finds] at the least and greatest value of each column."""
    count, out = counter(path), []
    for field, column in zip(table.schema, table.columns):
        t = field.type
        if pa.types.is_dictionary(t):
            column = column.cast(t.value_type)
            t = t.value_type
        values = [v for v in column.to_pylist() if v is not None]
        if not values or pa.types.is_nested(t) or "binary" in type_name(t) or any(v != v for v in values):
            continue
        key = (lambda v: v.encode()) if isinstance(values[0], str) else (lambda v: v)
        least, most = min(values, key=key), max(values, key=key)
        for operator, v, want in (("=", least, values.count(least)), ("=", most, values.count(most)), ("<", least, 0), (">", most, 0),
                                  (">", least, len(values) - values.count(least)), ("<", most, len(values) - values.count(most))):
            out.append([field.name, f"{operator} {v!r}", want, count(field.name, operator, v, t)])
    return out


def info(path, apps):
    """What the engine tells of the table beside its rows."""
    engine = sys.argv[1]
    if engine in ("datafusion", "pyarrow"):
        from deltalake import DeltaTable

        table = DeltaTable(path)
        history = [[h["version"], h["operation"], h.get("userMetadata") or ""] for h in table.history()]
        return {"version": table.version(), "history": sorted(history), "description": table.metadata().description or "",
                "apps": [table.transaction_version(a) for a in apps],
                "comments": {f.name: f.metadata.get("comment", "") for f in table.schema().fields}}
    if engine == "duckdb":
        con = connect_duckdb()
        con.execute(f"ATTACH '{path}' AS t (TYPE delta)")
        return {"apps": [con.execute(f"SELECT * FROM delta_get_transaction_version('t', '{a}')").fetchone()[0] for a in apps]}
    return {}


def main():
    read = globals()["read_" + sys.argv[1]]
    out = []
    for request in json.load(sys.stdin):
        table, count = read(request["path"], request.get("where") or [])
        columns = [canon(table.column(i)) for i in range(table.num_columns)]
        out.append({"columns": table.column_names, "types": [type_name(t) for t in table.schema.types], "rows": list(map(list, zip(*columns))), "count": count})
        if request.get("extremes"):
            out[-1]["extremes"] = extremes(request["path"], table)
            out[-1]["info"] = info(request["path"], request.get("apps") or [])
    print(json.dumps(out), flush=True)
    os._exit(0)  # delta-rs with pyarrow has been seen to abort at the exit of the interpreter


main()
