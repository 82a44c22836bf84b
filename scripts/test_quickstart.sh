#!/usr/bin/env bash
# Runs the commands of docs/quickstart.md on a machine with only the wheel, with real servers from npm and PyPI. Takes the folder
# of packages as test_packages.sh does.
set -euo pipefail
cd "$(dirname "$0")/.."

dist="${1:-}"
if [ -z "$dist" ]; then
    target="${CARGO_TARGET_DIR:-target}"
    binary="$target/release/onetool"
    [ -x "$binary" ] || binary="$target/debug/onetool"
    dist="$(mktemp -d)"
    trap 'rm -rf "$dist"' EXIT
    python3 scripts/package --binary "$binary" --output "$dist"
fi
ONETOOL_DIST="$(realpath "$dist")" uv run --quiet --no-project --isolated --with pytest --with jsonschema \
    python -m pytest -q -rs -p no:cacheprovider --rootdir packaging packaging/test_quickstart.py
