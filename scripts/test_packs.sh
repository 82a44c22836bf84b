#!/usr/bin/env bash
# The tests of the gallery's packs, each pack in the environment that its own header asks for. Needs uv. Arguments go to
# pytest: scripts/test_packs.sh packs/db -k limits
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- packs
# What the tests make their data with; the packs bring their own.
exec uv run --quiet --no-project --isolated \
    --with pytest --with openpyxl --with python-docx --with python-pptx --with reportlab --with pypdf --with pillow \
    python -m pytest -q -p no:cacheprovider --rootdir packs "$@"
