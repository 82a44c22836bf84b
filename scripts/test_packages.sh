#!/usr/bin/env bash
# Installs each package of a folder offline in a clean environment and speaks MCP with it. Without a folder, makes the
# packages of the binary in target/ first (release where there is one, else debug). Needs uv; npm for the npm packages.
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
    python -m pytest -q -p no:cacheprovider --rootdir packaging packaging/test_packages.py
