"""One pymssql connection driven from the outside: a JSON step per line in, its outcome as a JSON line out.

    python pymssql_session.py HOST PORT USER DATABASE [ENCRYPTION]   # the password is in the environment variable SIM_PASSWORD

Steps: {"op": "query", "sql": ..., "params": [...]}: every rowset; {"op": "call", "sql": procedure, "params": [...]}: output parameters
({"output": "int"}) and return status, too; {"op": "commit"}, {"op": "rollback"}, {"op": "autocommit", "on": true}; {"op": "cancel", "sql": ..., "rows": n}:
gives up after n rows, which sends an attention. Values come as text, NULL as null; see text().
"""
import datetime
import decimal
import json
import os
import sys
import uuid

import pymssql


def text(value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (bytes, bytearray)):
        return "0x" + value.hex().upper()
    if isinstance(value, uuid.UUID):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def rowsets(cursor):
    sets = []
    while True:
        if cursor.description:
            rows = [[text(v) for v in row] for row in cursor.fetchall()]
            sets.append({"columns": [c[0] for c in cursor.description], "rows": rows, "count": cursor.rowcount})
        else:
            sets.append({"columns": None, "rows": None, "count": cursor.rowcount})
        if not cursor.nextset():
            return sets


def run(connection, step):
    op = step["op"]
    if op in ("commit", "rollback"):
        getattr(connection, op)()
        return {}
    if op == "autocommit":
        connection.autocommit(step["on"])
        return {}
    cursor = connection.cursor()
    if op == "query":
        if step.get("params"):
            cursor.execute(step["sql"], tuple(step["params"]))
        else:
            cursor.execute(step["sql"])  # % stays as it is
        return {"sets": rowsets(cursor)}
    if op == "call":
        types = {"int": int, "text": str, "binary": bytes}
        params = [pymssql.output(types[p["output"]]) if isinstance(p, dict) else p for p in step["params"]]
        out = cursor.callproc(step["sql"], tuple(params))
        sets = rowsets(cursor)
        return {"sets": sets, "status": cursor.returnvalue, "out": [text(v) for v in out]}
    if op == "cancel":
        cursor.execute(step["sql"])
        rows = [[text(v) for v in cursor.fetchone()] for _ in range(step["rows"])]
        connection._conn.cancel()
        return {"sets": [{"columns": None, "rows": rows, "count": len(rows)}]}
    raise ValueError(op)


def main():
    host, port, user, database = sys.argv[1:5]
    more = {"encryption": sys.argv[5]} if len(sys.argv) > 5 else {}
    connection = pymssql.connect(server=host, port=port, user=user, password=os.environ["SIM_PASSWORD"], database=database,
                                 login_timeout=20, timeout=60, charset="UTF-8", autocommit=True, **more)
    for line in sys.stdin:
        step = json.loads(line)
        try:
            out = run(connection, step)
        except pymssql.Error as error:
            cause = error.__cause__ or error.__context__
            number, message = (list(error.args) + [b""])[:2] if len(error.args) > 1 else (0, error.args[0])
            if isinstance(number, tuple):
                number, message = number
            message = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
            out = {"error": {"number": number, "message": message, "class": getattr(cause, "severity", -1),
                             "state": getattr(cause, "state", -1), "kind": type(error).__name__}}
        print(json.dumps(out), flush=True)


main()
