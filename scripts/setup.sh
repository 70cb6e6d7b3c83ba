#!/usr/bin/env bash
# Brings the checkout into working order: .tools (uv, just), .venv (Python), typescript/node_modules and
# typescript/dist. With `tools`, only the first.
# Each step leaves a stamp of what it was made from, and is passed over while the stamp fits.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tools

fits() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# Runs a command without its output; where it fails, prints what it printed, and ends.
quietly() {
    local said
    said=$(mktemp)
    if ! "$@" >"$said" 2>&1; then
        cat "$said" >&2
        rm -f "$said"
        echo "setup: this command failed, and the lines above are its own: $*" >&2
        exit 1
    fi
    rm -f "$said"
}

find_python() {
    local seen=""
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
        seen=${seen:-$("$candidate" --version 2>/dev/null || true)}
    done
    echo "leafgate needs Python 3.11 or newer; found: ${seen:-no Python}." >&2
    echo "Install one: apt install python3 python3-venv (Debian 12, Ubuntu 24.04 or newer), dnf install python3.12," >&2
    echo "brew install python, or from python.org; or uv python install 3.13, and put its folder on PATH." >&2
    exit 1
}

if ! node -e 'process.exit(Number.parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
    echo "leafgate needs Node.js 20 or newer, with npm; found: $(node --version 2>/dev/null || echo no Node.js)." >&2
    echo "Install one: nvm install 22, brew install node, dnf install nodejs, or from nodejs.org." >&2
    exit 1
fi

wanted=$(cksum <scripts/tools.txt)
if [ ! -x .tools/uv-env/bin/just ] || ! fits .tools/tools.stamp "$wanted"; then
    echo "setup: uv and just into .tools" >&2
    base=$(find_python)
    [ -x .tools/uv-env/bin/python ] || quietly "$base" -m venv .tools/uv-env
    quietly .tools/uv-env/bin/python -m pip install --disable-pip-version-check --require-hashes -r scripts/tools.txt
    echo "$wanted" >.tools/tools.stamp
fi
if [ "${1:-}" = tools ]; then
    exit 0
fi
uv=.tools/uv-env/bin/uv

install_python() {
    local wanted base
    wanted=$(cat python/requirements.txt python/pyproject.toml python/build_hook.py | cksum)
    if [ ! -x .venv/bin/leafgate ] || ! fits .tools/python.stamp "$wanted"; then
        echo "setup: Python packages into .venv" >&2
        base=$(find_python)
        [ -x .venv/bin/python ] || quietly "$uv" venv --python "$base" .venv
        quietly "$uv" pip install --python .venv/bin/python --require-hashes -r python/requirements.txt
        quietly "$uv" pip install --python .venv/bin/python --no-deps --no-build-isolation -e python
        echo "$wanted" >.tools/python.stamp
    fi
}

install_node() {
    local wanted
    wanted=$(cat typescript/package.json typescript/package-lock.json | cksum)
    if [ ! -d typescript/node_modules ] || ! fits .tools/node.stamp "$wanted"; then
        echo "setup: npm packages" >&2
        # Not `npm ci`: it refuses a lock without every platform's optional binaries, and not every registry carries them.
        quietly npm --prefix typescript install --no-save --no-audit --no-fund
        echo "$wanted" >.tools/node.stamp
    fi

    wanted=$(find typescript/src typescript/examples typescript/tsconfig*.json -type f -print0 | sort -z | xargs -0 cat | cksum)
    if [ ! -d typescript/dist ] || ! fits .tools/build.stamp "$wanted"; then
        echo "setup: building typescript" >&2
        quietly npm --prefix typescript run build
        # So that `npx @codecai/mcp-leaf` works inside typescript/ as it does where the package is installed.
        chmod +x typescript/dist/src/cli.js
        ln -sfn ../../dist/src/cli.js typescript/node_modules/.bin/mcp-leaf
        echo "$wanted" >.tools/build.stamp
    fi
}

# Neither needs the other, and both wait for downloads. If one fails, the other is not left half done.
trap wait EXIT
install_python &
python=$!
install_node
wait "$python"
