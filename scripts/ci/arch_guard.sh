#!/usr/bin/env bash
# Fails when a package imports what it may not, names another room's table, or
# the node binary links a server's library.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -count=1 -tags nomsgpack ./internal/arch
