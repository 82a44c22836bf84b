#!/usr/bin/env bash
# Checks the documentation: links, commands, configurations, the quick start, the site. Needs uv and a built onetool.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${ONETOOL_BINARY:-}" ]; then
    target="${CARGO_TARGET_DIR:-target}"
    # The newer one: the other is of older sources.
    ONETOOL_BINARY="$target/release/onetool"
    [ ! "$target/debug/onetool" -nt "$ONETOOL_BINARY" ] || ONETOOL_BINARY="$target/debug/onetool"
fi
export ONETOOL_BINARY
exec uv run --quiet --no-project --isolated --python '>=3.11' --with pytest --with pyyaml \
    python -m pytest -q -p no:cacheprovider --rootdir docs docs/test_docs.py docs/test_examples.py "$@"
