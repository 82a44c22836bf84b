#!/usr/bin/env bash
# All tests, on a machine that has Rust, Python 3 and pip. Installs what the tests need besides: uv, for Python tools, and
# Chromium, for pages that people look at, where apt can install it. Where there is no browser, the tests that need one are
# left out, and this says so.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v uv >/dev/null 2>&1; then
    tools="${XDG_CACHE_HOME:-$HOME/.cache}/onetool-ci/tools"
    [ -x "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet uv; }
    mkdir -p "$tools/path" && ln -sf "$tools/bin/uv" "$tools/path/uv"
    export PATH="$tools/path:$PATH"
fi

browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return
    done
    return 1
}

install_chromium() {
    local as_root=()
    command -v apt-get >/dev/null 2>&1 || { echo "there is no apt-get here"; return 1; }
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || { echo "that takes root, or sudo without a password"; return 1; }
        as_root=(sudo -n)
    fi
    local options=(-qq -o DPkg::Lock::Timeout=60 -o Acquire::Retries=2)
    "${as_root[@]}" timeout 120 apt-get "${options[@]}" update >/dev/null || echo "the list of packages may be old"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 420 \
        apt-get "${options[@]}" install --yes --no-install-recommends chromium >/dev/null
}

if [ -z "${ONETOOL_SKIP_BROWSER_TESTS:-}" ] && ! browser >/dev/null; then
    echo "== Chromium is missing; installing it for the tests of pages" >&2
    install_chromium >&2 </dev/null || true
    if ! browser >/dev/null; then
        echo "== No Chromium could be installed: THE TESTS IN A BROWSER ARE LEFT OUT. Install chromium to have them run." >&2
        export ONETOOL_SKIP_BROWSER_TESTS=1
    fi
fi

cargo test --workspace
cargo run --quiet -p onetool-sdk --example agent_loop >/dev/null
cargo test --manifest-path examples/sdk-standalone/Cargo.toml
