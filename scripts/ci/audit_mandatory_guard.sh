#!/usr/bin/env bash
# Fails when something writes for a caller and reaches no audit row, or a table
# leaves the list of those whose change the database refuses without one.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestPrivilegedChangesAreAudited|TestTriggersDemandAuditRows)$' ./internal/arch
