#!/usr/bin/env bash
# Fuzzes whatever reads what a process of others sends: both engines' children, workers, MCP servers, MCP clients.
#
#   scripts/fuzz.sh [SECONDS]     seconds for each of them [default: 60]
#
# The ordinary tests do the same for a second each. A failure names its seed: ONETOOL_FUZZ_SEED=… repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
export ONETOOL_FUZZ_SECONDS="${1:-60}"
for target in "onetool-sandbox --lib" "onetool-worker --lib" "onetool-proxy --lib" "onetool --test it"; do
  # shellcheck disable=SC2086 # a package and its kind of test
  cargo test -q -p $target fuzz_ -- --nocapture --test-threads 2
done
