#!/usr/bin/env bash
# Installs the programs of the system that tests need, through apt, where this user may: Chromium for tests/browser,
# and Redis for gateways that share what they keep. Quick when they are there. Never fails: it says what is missing,
# and the tests that need it decide (with CI=true they fail, without they are skipped and say so).
set -euo pipefail

# program, then the package that has it
wanted=("chromium chromium" "redis-server redis-server")

missing=()
for pair in "${wanted[@]}"; do
    read -r program package <<<"$pair"
    command -v "$program" >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
    sudo -n true 2>/dev/null || as_root=(false)
fi
if ! command -v apt-get >/dev/null || [ "${as_root[*]:-}" = false ]; then
    echo "system packages that some tests need are missing, and cannot be installed here: ${missing[*]}" >&2
    exit 0
fi
echo "system packages: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >/dev/null || true
for package in "${missing[@]}"; do
    "${as_root[@]}" apt-get install -qq -y --no-install-recommends "$package" >/dev/null 2>&1 ||
        echo "system packages: $package could not be installed" >&2
done
