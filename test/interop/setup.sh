#!/usr/bin/env bash
# Installs the foreign engines and clients that the interoperability tests drive, into .interop (ignored by git); FreeTDS' tsql comes
# from the system's packages. What cannot be installed is named at the end, and its tests are skipped. Running it again is cheap.
#
#   test/interop/setup.sh [--spark] [--clients]
#
# --spark: PySpark and the Delta jars too, 500 MB; needs Java 17 and Maven.
# --clients: the TDS clients and CDC readers of test/interop/clients too, 700 MB; needs Java 17 with Maven, Node and Cargo for some.
set -euo pipefail
cd "$(dirname "$0")/../.."

spark=no clients=no
for arg in "$@"; do
	case $arg in
	--spark) spark=yes ;;
	--clients) clients=yes ;;
	*) echo "setup.sh: unknown argument $arg" >&2 && exit 2 ;;
	esac
done

missing=()

install_python() {
	python3 -m venv .interop
	.interop/bin/pip install --quiet deltalake==1.6.6 pyarrow==26.0.1 duckdb==1.5.5 duckdb-extension-delta==1.5.5 polars==2.1.0 pymssql==2.4.6
}

install_tsql() {
	command -v tsql >/dev/null && return
	command -v apt-get >/dev/null || return 1
	local as_root=
	[ "$(id -u)" = 0 ] || as_root="sudo -n"
	$as_root apt-get install --yes --quiet --no-install-recommends freetds-bin >/dev/null 2>&1 && return
	{ $as_root apt-get update --quiet && $as_root apt-get install --yes --quiet --no-install-recommends freetds-bin; } >/dev/null 2>&1
}

# pyspark 4.2.0 with delta-spark 4.4.0: newer jars of Delta cannot be had from Maven. The folder must not be called jars, or PySpark
# takes its parent for a Spark home.
install_spark() {
	command -v java >/dev/null && command -v mvn >/dev/null || return 1
	.interop/bin/pip install --quiet pyspark==4.2.0 delta-spark==4.4.0 || return 1
	mkdir -p .interop/delta-jars
	local artifact
	for artifact in delta-spark_4.2_2.13 delta-storage; do
		[ -f ".interop/delta-jars/$artifact-4.4.0.jar" ] && continue
		mvn --quiet --batch-mode -Dstyle.color=never dependency:copy -Dartifact="io.delta:$artifact:4.4.0" -DoutputDirectory="$PWD/.interop/delta-jars" || return 1
	done
}

# In an environment of their own, since some bring a driver that others would find. mssql-cdc-pyspark comes without Spark: its client
# layer is what is run.
install_client_packages() {
	python3 -m venv .interop/clients
	.interop/clients/bin/pip install --quiet --no-deps mssql-cdc-pyspark==0.8.0
	.interop/clients/bin/pip install --quiet pyarrow==26.0.1 mssql-python==1.16.0 python-tds==1.17.1 pyopenssl pyodbc==5.5.0 arrow-odbc==10.6.2
}

# The last version of ingestr whose package holds the program.
install_readers() {
	.interop/clients/bin/pip install --quiet rivet-cli==0.32.2 ingestr==1.1.22
}

# unixODBC, FreeTDS' ODBC driver, and what Microsoft's driver in mssql-python links to.
install_odbc() {
	command -v apt-get >/dev/null || return 1
	local as_root= packages="unixodbc tdsodbc libltdl7 libkrb5-3 libgssapi-krb5-2"
	[ "$(id -u)" = 0 ] || as_root="sudo -n"
	$as_root apt-get install --yes --quiet --no-install-recommends $packages >/dev/null 2>&1 && return
	{ $as_root apt-get update --quiet && $as_root apt-get install --yes --quiet --no-install-recommends $packages; } >/dev/null 2>&1
}

install_tedious() {
	[ -d .interop/tedious/node_modules/tedious ] && return
	command -v npm >/dev/null || return 1
	npm install --prefix .interop/tedious --no-audit --no-fund --silent tedious@19.2.2
}

install_tiberius() {
	command -v cargo >/dev/null || return 1
	mkdir -p .interop/tiberius && cp -r test/interop/clients/testdata/tiberius/. .interop/tiberius/ || return 1
	cargo build --quiet --release --manifest-path .interop/tiberius/Cargo.toml --target-dir .interop/tiberius
}

# Debezium in the embedded engine, with Microsoft's JDBC driver among its jars.
install_debezium() {
	command -v java >/dev/null && command -v mvn >/dev/null || return 1
	mvn --quiet --batch-mode -Dstyle.color=never --file test/interop/clients/debezium/pom.xml -Dbuild.dir="$PWD/.interop/debezium" package
}

# Servers of object storage: Azurite for Azure, versitygw for S3 on a folder.
install_azurite() {
	[ -x .interop/node_modules/.bin/azurite-blob ] && return
	command -v npm >/dev/null || return 1
	npm install --prefix .interop --no-audit --no-fund --silent azurite@3.37.0
}

install_versitygw() {
	[ -x .interop/bin/versitygw ] && return
	GOBIN="$PWD/.interop/bin" GOFLAGS=-mod=mod go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
}

install_python || missing+=("the Python packages (deltalake, duckdb, polars, pymssql)")
install_tsql || missing+=("FreeTDS' tsql (apt-get install freetds-bin)")
install_azurite || missing+=("Azurite (npm install azurite)")
install_versitygw || missing+=("versitygw (go install)")
if [ $spark = yes ]; then
	install_spark || missing+=("Spark (java, mvn, pip install pyspark delta-spark)")
fi
if [ $clients = yes ]; then
	install_client_packages || missing+=("Python's TDS clients (pip install mssql-python python-tds pyodbc arrow-odbc mssql-cdc-pyspark)")
	install_readers || missing+=("rivet and ingestr (pip install rivet-cli ingestr)")
	install_odbc || missing+=("ODBC (apt-get install unixodbc tdsodbc)")
	install_tedious || missing+=("tedious (npm install tedious)")
	install_tiberius || missing+=("tiberius (cargo build)")
	install_debezium || missing+=("Debezium and mssql-jdbc (java, mvn)")
fi

for what in "${missing[@]}"; do
	echo "setup.sh: NOT INSTALLED, its tests will be skipped: $what" >&2
done
echo "setup.sh: done; go test ./test/interop/... ./output/delta/store/..."
