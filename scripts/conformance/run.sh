#!/usr/bin/env bash
# The official MCP conformance suite, both revisions that it scores.
#
#   scripts/conformance/run.sh            all legs
#   scripts/conformance/run.sh fixture    our transport under the tools, prompts and resources that the suite names: all
#                                         scored scenarios pass
#   scripts/conformance/run.sh product    onetool itself: what fails is listed in product-*.yml, each entry a fixture that
#                                         the product has no reason to have; an entry that passes is an error, so the lists
#                                         can only shrink
#   scripts/conformance/run.sh client     our proxy as the client (client.py)
#
# Needs npm; the suite needs Node 22, which is installed beside it. CONFORMANCE_DIR says where (target/conformance).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/../.."
suite=@modelcontextprotocol/conformance@0.2.0-alpha.12
revisions=(2025-11-25 2026-07-28)
target="${CARGO_TARGET_DIR:-target}"
export CONFORMANCE_DIR="${CONFORMANCE_DIR:-$target/conformance}"
legs=("$@")
if [ ${#legs[@]} = 0 ]; then
    legs=(fixture product client)
fi

mkdir -p "$CONFORMANCE_DIR"
CONFORMANCE_DIR="$(cd "$CONFORMANCE_DIR" && pwd)"
bin="$CONFORMANCE_DIR/node_modules/.bin"
[ -x "$bin/conformance" ] || npm install --prefix "$CONFORMANCE_DIR" --no-audit --no-fund --silent node@22 "$suite"
"$bin/node" --version >/dev/null 2>&1 || npm rebuild --prefix "$CONFORMANCE_DIR" --silent node
export PATH="$bin:$PATH"

server=
stop() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; server=; }
trap stop EXIT

# Starts a server and sets `url` to where it listens.
start() {
    local log="$CONFORMANCE_DIR/$1.log"
    shift
    : >"$log"
    "$@" 2>"$log" &
    server=$!
    for _ in $(seq 100); do
        url="$(sed -n 's/^listening at //p' "$log" | head -1)"
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$log" >&2
    echo "the server did not start" >&2
    exit 1
}

failed=0
for leg in "${legs[@]}"; do
    case "$leg" in
    fixture)
        # With the features of the whole workspace, so that nothing is compiled a second time.
        cargo build --quiet --workspace --example conformance
        start fixture "$target/debug/examples/conformance"
        ;;
    product)
        [ -n "${ONETOOL_BIN:-}" ] || cargo build --quiet --workspace --bin onetool
        folder="$CONFORMANCE_DIR/project"
        rm -rf "$folder" && mkdir -p "$folder/.onetool"
        : >"$folder/.onetool/onetool.yaml"
        binary="$(realpath "${ONETOOL_BIN:-$target/debug/onetool}")"
        start product env -C "$folder" HOME="$folder" "$binary" serve --http 127.0.0.1:0
        ;;
    client)
        python3 "$here/client.py" || failed=1
        continue
        ;;
    *)
        echo "unknown leg '$leg'; expected fixture, product or client" >&2
        exit 2
        ;;
    esac
    for revision in "${revisions[@]}"; do
        log="$CONFORMANCE_DIR/$leg-$revision.txt"
        baseline=()
        [ "$leg" != product ] || baseline=(--expected-failures "$here/product-$revision.yml")
        if conformance server --url "$url/mcp" --requirements "$revision" "${baseline[@]}" \
            -o "$CONFORMANCE_DIR/$leg-$revision" >"$log" 2>&1; then
            echo "$leg $revision: ok ($(grep -c '^✓' "$log") scenarios pass, $(grep -c '^✗' "$log") do not apply)"
        else
            failed=1
            echo "$leg $revision: FAILED"
            sed -n '/=== SUMMARY/,$p' "$log"
        fi
    done
    stop
done
exit $failed
