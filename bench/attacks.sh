#!/usr/bin/env bash
# Runs the attacks in cases/attacks/ against a release build and prints the peak memory of the server with all its
# children, and how long another client waits for a `2 + 2` meanwhile. One file at a time, so that only the attack slows
# it down.
#
#   bench/attacks.sh              # builds target/release/onetool, and the tests that drive it
#   bench/attacks.sh PATH         # another binary
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# = 0 ]; then
    cargo build --release --quiet
    set -- "${CARGO_TARGET_DIR:-target}/release/onetool"
fi
ONETOOL_BIN=$(realpath "$1") ONETOOL_ATTACKS_AT_ONCE=1 \
    cargo test -q -p onetool --test it attacks::no_attempt_succeeds -- --nocapture |
    grep -E 'attempts, (peak|[0-9]+ successes)'
