#!/usr/bin/env bash
# Fuzzes every target of the project for a while each: test/fuzz.sh 10s, or for a number of inputs: test/fuzz.sh 2000x
set -euo pipefail
cd "$(dirname "$0")/.."
for_each=${1:-10s}
grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r folder; do
    for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$folder"/*_test.go | awk '{print $2}' | sort -u); do
        echo "$folder $target"
        # -fuzzminimizetime: minimising an interesting input must not eat the time.
        go test "$folder" -run '^$' -fuzz "^$target\$" -fuzztime "$for_each" -fuzzminimizetime 1s -parallel 2 >/dev/null
    done
done
