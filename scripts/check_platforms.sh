#!/usr/bin/env bash
# Checks on Linux that everything compiles for other systems; nothing is linked or run. The crates that are partly C
# (ring, blake3) need a compiler for the target: zig's, from PyPI. Needs rustup; takes five minutes a target.
#
#   scripts/check_platforms.sh                            macOS for both processors, and Windows
#   scripts/check_platforms.sh x86_64-pc-windows-gnu      one of them
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    targets=(aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-gnu)
fi

tools="${XDG_CACHE_HOME:-$HOME/.cache}/onetool-ci/zig"
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/python" -m ziglang version >/dev/null 2>&1 || "$tools/bin/pip" install --quiet ziglang
folder=$(mktemp -d "${TMPDIR:-/tmp}/onetool-platforms.XXXXXX")
trap 'rm -rf "$folder"' EXIT

printf '#!/bin/sh\nexec "%s/bin/python" -m ziglang ar "$@"\n' "$tools" >"$folder/ar"
chmod +x "$folder/ar"

# A compiler for one of zig's targets, without the options that name the target in another way.
compiler() {
    cat >"$folder/cc-$1" <<PROGRAM
#!/usr/bin/env bash
given=()
while [ \$# -gt 0 ]; do
    case "\$1" in
    --target=* | -mmacosx-version-min=*) ;;
    -arch | -isysroot) shift ;;
    *) given+=("\$1") ;;
    esac
    shift
done
exec "$tools/bin/python" -m ziglang cc -target $1 "\${given[@]}"
PROGRAM
    chmod +x "$folder/cc-$1"
    echo "$folder/cc-$1"
}

for target in "${targets[@]}"; do
    case "$target" in
    aarch64-apple-darwin) zig=aarch64-macos ;;
    x86_64-apple-darwin) zig=x86_64-macos ;;
    x86_64-pc-windows-gnu) zig=x86_64-windows-gnu ;;
    *)
        echo "unknown target '$target'; expected aarch64-apple-darwin, x86_64-apple-darwin or x86_64-pc-windows-gnu" >&2
        exit 2
        ;;
    esac
    rustup --quiet target add "$target"
    name="${target//-/_}"
    echo "== $target"
    # There is no SDK to look for.
    env SDKROOT="$folder" "CC_$name=$(compiler "$zig")" "AR_$name=$folder/ar" cargo check --workspace --target "$target"
done
