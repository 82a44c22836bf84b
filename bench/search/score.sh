#!/bin/sh
# Prints how often a search finds the right tool. See README.md.
cd "$(dirname "$0")/../.." && exec cargo run --release --quiet -p onetool-run --example search_score -- "$@"
