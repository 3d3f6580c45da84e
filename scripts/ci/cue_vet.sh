#!/usr/bin/env bash
# Fails if an environment is invalid, or if the policies do not evaluate to the
# compiled tables.
set -euo pipefail
cd "$(dirname "$0")/../.."

failed=0
for environment in environments/*/; do
	CGO_ENABLED=0 go run -tags nomsgpack ./cmd/gpuaas validate "${environment%/}" || failed=1
done
CGO_ENABLED=0 go test -tags nomsgpack ./policies/gen ./environments || failed=1
exit "$failed"
