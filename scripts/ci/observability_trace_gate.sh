#!/usr/bin/env bash
# Fails if a router has no trace middleware, or if a response, errors included, has no
# span or no correlation id.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestRoutersAreTraced|TestEveryAnswerIsTraced|TestTracedCoversEveryResponse|TestCorrelationOf)$' \
	./internal/arch ./internal/telemetry ./api/rest ./api/nodeapi
