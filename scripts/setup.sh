#!/usr/bin/env bash
# Brings the checkout into working order: .tools (uv), .venv (Python), typescript/node_modules and typescript/dist.
# Each step leaves a stamp of what it was made from, and is passed over while the stamp fits.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tools

fits() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

find_python() {
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "leafgate needs Python 3.11 or newer, and none was found." >&2
    exit 1
}

if ! command -v node >/dev/null || ! node -e 'process.exit(Number.parseInt(process.versions.node) < 20 ? 1 : 0)'; then
    echo "leafgate needs Node 20 or newer, and none was found." >&2
    exit 1
fi

if [ ! -x .tools/uv-env/bin/uv ]; then
    echo "setup: uv into .tools" >&2
    base=$(find_python)
    "$base" -m venv .tools/uv-env
    .tools/uv-env/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7 2>/dev/null
fi
uv=.tools/uv-env/bin/uv

wanted=$(cat python/requirements.txt python/pyproject.toml python/build_hook.py | cksum)
if [ ! -x .venv/bin/leafgate ] || ! fits .tools/python.stamp "$wanted"; then
    echo "setup: Python packages into .venv" >&2
    [ -x .venv/bin/python ] || "$uv" venv --quiet --python "$(find_python)" .venv
    "$uv" pip install --quiet --python .venv/bin/python --require-hashes -r python/requirements.txt
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e python
    echo "$wanted" >.tools/python.stamp
fi

wanted=$(cat typescript/package.json typescript/package-lock.json | cksum)
if [ ! -d typescript/node_modules ] || ! fits .tools/node.stamp "$wanted"; then
    echo "setup: npm packages" >&2
    # Not `npm ci`: it refuses a lock without every platform's optional binaries, and not every registry carries them.
    (cd typescript && npm install --silent --no-save --no-audit --no-fund)
    echo "$wanted" >.tools/node.stamp
fi

wanted=$(find typescript/src typescript/examples typescript/tsconfig*.json -type f -print0 | sort -z | xargs -0 cat | cksum)
if [ ! -d typescript/dist ] || ! fits .tools/build.stamp "$wanted"; then
    echo "setup: building typescript" >&2
    (cd typescript && npm run --silent build)
    # So that `npx @codecai/mcp-leaf` works inside typescript/ as it does where the package is installed.
    chmod +x typescript/dist/src/cli.js
    ln -sfn ../../dist/src/cli.js typescript/node_modules/.bin/mcp-leaf
    echo "$wanted" >.tools/build.stamp
fi
