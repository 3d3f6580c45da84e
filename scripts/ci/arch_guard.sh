#!/usr/bin/env bash
# Fails if a package violates the import rules, names a table of another package,
# or if the agent links a library of the server.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -count=1 -tags nomsgpack ./internal/arch
