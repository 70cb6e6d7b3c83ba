#!/usr/bin/env bash
# Installs the MCP servers that tests/real_servers stands the gateway in front of: published packages, pinned, each
# Python one in an environment of its own, because some do not run on the SDK that the gateway uses.
# Each step leaves a stamp of what it was made from, and is passed over while the stamp fits. Needs scripts/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
servers=.tools/servers
uv=.tools/uv-env/bin/uv
mkdir -p "$servers"

fits() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

npm_packages=(
    @modelcontextprotocol/server-everything@2026.8.31
    @modelcontextprotocol/server-filesystem@2026.8.31
    @modelcontextprotocol/server-memory@2026.8.31
)
if [ ! -d "$servers/npm/node_modules" ] || ! fits "$servers/npm.stamp" "${npm_packages[*]}"; then
    echo "test servers: npm packages" >&2
    rm -rf "$servers/npm" "$servers/npm.stamp"
    mkdir -p "$servers/npm"
    # With a package of its own there, npm does not look for one further up.
    echo '{"name": "test-servers", "private": true}' >"$servers/npm/package.json"
    npm install --silent --no-audit --no-fund --no-save --prefix "$servers/npm" "${npm_packages[@]}"
    echo "${npm_packages[*]}" >"$servers/npm.stamp"
fi

# name, then what goes into its environment
python_server() {
    local name=$1
    shift
    if [ -x "$servers/$name/bin/$name" ] && fits "$servers/$name.stamp" "$*"; then
        return
    fi
    echo "test servers: $name" >&2
    rm -rf "${servers:?}/$name" "$servers/$name.stamp"
    "$uv" venv --quiet --python .venv/bin/python "$servers/$name"
    "$uv" pip install --quiet --python "$servers/$name/bin/python" "$@"
    echo "$*" >"$servers/$name.stamp"
}
# One on each generation of the SDK, so that the gateway meets both eras of the protocol.
python_server mcp-server-time mcp-server-time==2026.10.19 mcp==2.3.0
python_server mcp-server-git mcp-server-git==2026.10.10 mcp==1.30.0
