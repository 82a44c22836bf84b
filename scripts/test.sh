#!/usr/bin/env bash
# All tests, on a machine that has Rust, Python 3 and pip. Installs what the tests need besides: uv, for Python tools.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v uv >/dev/null 2>&1; then
    tools="${XDG_CACHE_HOME:-$HOME/.cache}/onetool-ci/tools"
    [ -x "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet uv; }
    mkdir -p "$tools/path" && ln -sf "$tools/bin/uv" "$tools/path/uv"
    export PATH="$tools/path:$PATH"
fi

cargo test --workspace
cargo run --quiet -p onetool-sdk --example agent_loop >/dev/null
cargo test --manifest-path examples/sdk-standalone/Cargo.toml
