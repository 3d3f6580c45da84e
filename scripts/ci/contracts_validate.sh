#!/usr/bin/env bash
# Fails when a contract is not well formed or breaks a rule of the house: names,
# types, bounds, examples, pages, idempotency, preconditions, one form of failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack ./api/openapi ./api/openapi/breaking ./api/asyncapi
