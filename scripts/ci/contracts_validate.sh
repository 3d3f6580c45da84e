#!/usr/bin/env bash
# Fails if a contract is not well-formed or violates a rule of the project: names,
# types, bounds, examples, pages, idempotency, preconditions, one form of errors.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack ./api/openapi ./api/openapi/breaking ./api/asyncapi
