#!/usr/bin/env bash
# Fails when a contract takes something away from the clients of the last release,
# and no `x-breaking: "reason"` in it says that this is meant. A release copies the
# contracts to the released folders.
set -euo pipefail
cd "$(dirname "$0")/../.."

failed=0
for contract in openapi asyncapi; do
	CGO_ENABLED=0 go run -tags nomsgpack ./scripts/contractdiff "api/$contract/released/$contract.yaml" "api/$contract/$contract.yaml" || failed=1
done
exit "$failed"
