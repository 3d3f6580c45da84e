#!/usr/bin/env bash
# Fails when an operation has no roles, a role names no operation, or what is
# mounted and what is written down differ, in either direction.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestEveryOperationHasRoles|TestRoutesAreTheContract|TestRoutesAreTheWires)$' ./api/rest ./api/nodeapi
