#!/usr/bin/env bash
# Sends thousands of generated requests to the REST API, made from its own description: none may get a 5xx of ours.
# Needs uv and a built onetool.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${ONETOOL_BINARY:-}" ]; then
    target="${CARGO_TARGET_DIR:-target}"
    ONETOOL_BINARY="$target/release/onetool"
    [ -x "$ONETOOL_BINARY" ] || ONETOOL_BINARY="$target/debug/onetool"
fi
ONETOOL_BINARY="$(realpath "$ONETOOL_BINARY")"
folder="$(mktemp -d)"
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
mkdir -p "$folder/.onetool"
printf 'http:\n  allowed_hosts: [api.invalid]\n  max_timeout: 2\nserver:\n  invoke_timeout: 5\n' > "$folder/.onetool/onetool.yaml"
# One of the requests will make a token, and from then on all of them need one.
token="$(cd "$folder" && HOME="$folder" "$ONETOOL_BINARY" tokens create schemathesis --scope admin 2> /dev/null)"
(cd "$folder" && HOME="$folder" exec "$ONETOOL_BINARY" serve --http "127.0.0.1:$port" 2> "$folder/log") &
server=$!
trap 'kill "$server" 2> /dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    if curl -sf "http://127.0.0.1:$port/openapi.json" -o "$folder/openapi.json"; then break; fi
    sleep 0.1
done
# A call of a tool answers 502 and 504 for its upstream, so calls are left out; everything else is ours. What follows from what
# is left to our own tests: schemathesis guesses links from Location headers, and guesses wrong.
cd "$folder"
uvx --quiet schemathesis run "$folder/openapi.json" --url "http://127.0.0.1:$port" -H "Authorization: Bearer $token" \
    --phases examples,coverage,fuzzing --checks not_a_server_error --max-examples "${EXAMPLES:-50}" --exclude-path-regex 'invoke$' "$@"
