#!/usr/bin/env bash
# Installs the foreign engines and clients that the interoperability tests drive, into .interop (ignored by git); FreeTDS' tsql comes
# from the system's packages. What cannot be installed is named at the end, and its tests are skipped. Running it again is cheap.
#
#   test/interop/setup.sh [--spark]     # --spark: PySpark and the Delta jars too, 500 MB; needs Java 17 and Maven
set -euo pipefail
cd "$(dirname "$0")/../.."

spark=no
for arg in "$@"; do
	case $arg in
	--spark) spark=yes ;;
	*) echo "setup.sh: unknown argument $arg" >&2 && exit 2 ;;
	esac
done

missing=()

install_python() {
	python3 -m venv .interop
	.interop/bin/pip install --quiet deltalake==1.6.6 pyarrow==26.0.1 duckdb==1.5.5 duckdb-extension-delta==1.5.5 pymssql==2.4.6
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

install_python || missing+=("the Python packages (deltalake, duckdb, pymssql)")
install_tsql || missing+=("FreeTDS' tsql (apt-get install freetds-bin)")
install_azurite || missing+=("Azurite (npm install azurite)")
install_versitygw || missing+=("versitygw (go install)")
if [ $spark = yes ]; then
	install_spark || missing+=("Spark (java, mvn, pip install pyspark delta-spark)")
fi

for what in "${missing[@]}"; do
	echo "setup.sh: NOT INSTALLED, its tests will be skipped: $what" >&2
done
echo "setup.sh: done; go test ./test/interop ./output/delta/store/..."
