#!/usr/bin/env bash
# Measures a clean release build in a folder of its own: wall clock, processor time, size of the binary, and the units
# that took longest. Takes about ten minutes on two cores; needs nothing but Rust.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d "${TMPDIR:-/tmp}/onetool-build-time.XXXXXX")
trap 'rm -rf "$folder"' EXIT
unset RUSTC_WRAPPER

TIMEFORMAT='wall clock %R s, user %U s, system %S s'
{ time CARGO_TARGET_DIR="$folder" cargo build --release --timings --quiet; } 2>&1 | grep -v '^ *Timing report'
cp "$folder/release/onetool" "$folder/stripped"
strip "$folder/stripped"
echo "binary $(stat -c %s "$folder/release/onetool") bytes, stripped $(stat -c %s "$folder/stripped") bytes"
python3 - "$folder"/cargo-timings/cargo-timing-*.html <<'PYTHON'
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
units = json.loads(re.search(r"UNIT_DATA = (\[.*?\]);", page, re.S).group(1))
units.sort(key=lambda unit: -unit["duration"])
print("longest units (seconds, two at once):")
for unit in units[:15]:
    print(f"  {unit['duration']:6.1f}  {unit['name']} {unit['version']}{unit['target']}")
PYTHON
