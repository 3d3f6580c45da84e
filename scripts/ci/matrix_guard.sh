#!/usr/bin/env bash
# Fails if an operation has no role, a role names no operation, or if the mounted
# routes differ from the contract.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestEveryOperationHasRoles|TestRoutesAreTheContract|TestRoutesAreTheProtocols)$' ./api/rest ./api/rest/request ./api/nodeapi
