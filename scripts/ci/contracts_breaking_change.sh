#!/usr/bin/env bash
# Fails if a contract breaks clients of the last release without an
# `x-breaking: "reason"`. A release copies the contracts to the released folders.
set -euo pipefail
cd "$(dirname "$0")/../.."

failed=0
for contract in openapi asyncapi; do
	CGO_ENABLED=0 go run -tags nomsgpack ./scripts/contractdiff "api/$contract/released/$contract.yaml" "api/$contract/$contract.yaml" || failed=1
done
exit "$failed"
