#!/usr/bin/env bash
# What the attacks in cases/attacks/ cost: the peak memory of the server with all its children, and how long another
# client waits for a `2 + 2` while they are tried. One file at a time, so that nothing but the attack slows it down.
#
#   bench/attacks.sh [--release]
set -euo pipefail
cd "$(dirname "$0")/.."
ONETOOL_ATTACKS_AT_ONCE=1 cargo test -q "$@" -p onetool --test it attacks::no_attempt_succeeds -- --nocapture |
  grep -E 'attempts, (peak|[0-9]+ successes)'
