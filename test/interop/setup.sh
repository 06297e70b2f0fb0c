#!/usr/bin/env bash
# Installs the foreign engines that the interoperability tests drive, into .interop (ignored by git).
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv .interop
.interop/bin/pip install --quiet deltalake==1.6.6 pyarrow==26.0.1 duckdb==1.5.5 duckdb-extension-delta==1.5.5 pymssql
