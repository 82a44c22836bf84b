#!/usr/bin/env bash
# All tests, on a machine that has Rust, Python 3 and pip. Installs what the tests need besides: uv, for Python tools,
# PostgreSQL, for state that several servers share, and Chromium, for pages that people look at, where apt can install them.
# Where there is no browser, the tests that need one are left out, and this says so.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v uv >/dev/null 2>&1; then
    tools="${XDG_CACHE_HOME:-$HOME/.cache}/onetool-ci/tools"
    [ -x "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet uv; }
    mkdir -p "$tools/path" && ln -sf "$tools/bin/uv" "$tools/bin/uvx" "$tools/path/"
    export PATH="$tools/path:$PATH"
fi

browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return
    done
    return 1
}

install_package() {
    local as_root=()
    command -v apt-get >/dev/null 2>&1 || { echo "there is no apt-get here"; return 1; }
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || { echo "that takes root, or sudo without a password"; return 1; }
        as_root=(sudo -n)
    fi
    local options=(-qq -o DPkg::Lock::Timeout=60 -o Acquire::Retries=2)
    "${as_root[@]}" timeout 120 apt-get "${options[@]}" update >/dev/null || echo "the list of packages may be old"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 420 \
        apt-get "${options[@]}" install --yes --no-install-recommends "$1" >/dev/null
}

postgres() {
    command -v initdb >/dev/null 2>&1 || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

if ! postgres; then
    echo "== PostgreSQL is missing; installing it for the tests of shared state" >&2
    install_package postgresql >&2 </dev/null || true
    postgres || echo "== No PostgreSQL could be installed: the tests of onetool-state-postgres will fail without it." >&2
fi

if [ -z "${ONETOOL_SKIP_BROWSER_TESTS:-}" ] && ! browser >/dev/null; then
    echo "== Chromium is missing; installing it for the tests of pages" >&2
    install_package chromium >&2 </dev/null || true
    if ! browser >/dev/null; then
        echo "== No Chromium could be installed: THE TESTS IN A BROWSER ARE LEFT OUT. Install chromium to have them run." >&2
        export ONETOOL_SKIP_BROWSER_TESTS=1
    fi
fi

# The shells whose completions are tried.
for shell in zsh fish; do
    if ! command -v "$shell" >/dev/null 2>&1; then
        echo "== $shell is missing; installing it for the tests of completions" >&2
        install_package "$shell" >&2 </dev/null || true
        command -v "$shell" >/dev/null 2>&1 || echo "== No $shell could be installed: ITS COMPLETIONS ARE NOT TRIED." >&2
    fi
done

python3 scripts/cargo_tests.py --workspace

# The admin page: its own tests, that dist/ is what the sources give, and the page in a browser.
if command -v npm >/dev/null 2>&1; then
    export ONETOOL_BIN="${ONETOOL_BIN:-$(realpath "${CARGO_TARGET_DIR:-target}")/debug/onetool}"
    (cd web && npm ci --silent --no-audit && npm run --silent check && npm test --silent)
    # A browser on a busy machine may be late once; what fails twice is broken.
    (cd web && npm run --silent e2e) || { echo "== The page is tried once more" >&2; (cd web && npm run --silent e2e); }
    # The official MCP suite: our transport with its fixtures, the product, and the product as a client.
    ONETOOL="$ONETOOL_BIN" bash scripts/conformance/run.sh
    # The official clients in Python and TypeScript, and FastMCP, against servers of every revision.
    python3 scripts/try_clients.py --onetool "$ONETOOL_BIN"
else
    echo "== There is no npm here: THE TESTS OF THE ADMIN PAGE, THE MCP CONFORMANCE SUITE AND OTHER CLIENTS ARE LEFT OUT." >&2
fi
# Runs in a row leave nothing behind; 10,000 of them are for a release build (bench/soak.py).
python3 bench/soak.py --onetool "$(realpath "${CARGO_TARGET_DIR:-target}")/debug/onetool" --runs 300
# Four servers behind a load balancer, one of them killed now and then; ten minutes of it: scripts/storm.py --long.
if ! command -v nginx >/dev/null 2>&1 && [ ! -x /usr/sbin/nginx ]; then
    echo "== nginx is missing; installing it for the storm" >&2
    install_package nginx-light >&2 </dev/null || true
fi
if command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ]; then
    python3 scripts/storm.py --onetool "$(realpath "${CARGO_TARGET_DIR:-target}")/debug/onetool"
else
    echo "== No nginx could be installed: THE STORM IS LEFT OUT." >&2
fi
# Built with the tests; of that package alone, its dependencies would be compiled again with other features.
"${CARGO_TARGET_DIR:-target}/debug/examples/agent_loop" >/dev/null
cargo test --manifest-path examples/sdk-standalone/Cargo.toml
uv run --quiet --no-project --isolated --with pytest --with-editable ./python \
    python -m pytest -q -p no:cacheprovider python/tests examples/tools/notes
# MySQL's relative, for the gallery's databases; without it they are tried on SQLite and PostgreSQL.
if ! command -v mariadbd >/dev/null 2>&1; then
    echo "== MariaDB is missing; installing it for the gallery" >&2
    install_package mariadb-server >&2 </dev/null || true
    command -v mariadbd >/dev/null 2>&1 || echo "== No MariaDB could be installed: THE GALLERY'S db PACK IS NOT TRIED ON IT." >&2
fi
bash scripts/test_packs.sh
# One set of packages serves both: installed offline, and the quick start with servers from npm and PyPI.
dist="$(mktemp -d)"
trap 'rm -rf "$dist"' EXIT
built="$(realpath "${CARGO_TARGET_DIR:-target}")"
# A release build of these sources is smaller; an older one is of others.
packaged="$built/release/onetool"
[ "$packaged" -nt "$built/debug/onetool" ] || packaged="$built/debug/onetool"
python3 scripts/package --binary "$packaged" --output "$dist"
bash scripts/test_packages.sh "$dist"
bash scripts/test_quickstart.sh "$dist"
bash scripts/test_docs.sh
