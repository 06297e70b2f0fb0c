"""Appends one row of text and whole numbers to a Delta table with delta-rs.

    python append_rows.py PATH < row.json

The row is an object: column name to string, number or null.
"""
import json
import os
import sys

import pyarrow as pa
from deltalake import write_deltalake

row = json.load(sys.stdin)
columns = {name: pa.array([value], pa.string() if isinstance(value, str) else pa.int64()) for name, value in row.items()}
write_deltalake(sys.argv[1], pa.table(columns), mode="append")
os._exit(0)  # as read_tables.py
