#!/usr/bin/env bash
# Installs the official MCP conformance suite, and the Node that it needs, into .tools/conformance. Needs scripts/setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.tools/conformance
wanted="node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12"
if [ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$wanted" ]; then
    exit 0
fi
echo "test tools: conformance suite" >&2
rm -rf "$folder"
mkdir -p "$folder"
echo '{"name": "conformance-tools", "private": true}' >"$folder/package.json"
# shellcheck disable=SC2086  # two packages
npm install --silent --no-audit --no-fund --no-save --prefix "$folder" $wanted
echo "$wanted" >"$folder/stamp"
