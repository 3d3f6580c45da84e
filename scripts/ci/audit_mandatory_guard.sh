#!/usr/bin/env bash
# Fails if a write for a caller reaches no audit row, or if a table is removed from
# the list of tables whose change the database rejects without one.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestPrivilegedChangesAreAudited|TestTriggersDemandAuditRows)$' ./internal/arch
