#!/usr/bin/env bash
# Runs just, in the version that scripts/tools.txt pins; installs it first if it is missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bash "$root/scripts/setup.sh" tools
exec "$root/.tools/uv-env/bin/just" "$@"
