#!/usr/bin/env bash
# Fails if web/dist is not what its sources make, if the types of the portal are not those of the contract, or if the
# first load is too large. Needs no Node.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -run 'TestBundleIsCurrent|TestFirstLoadIsSmall|TestTypesAreCurrent' ./web ./scripts/portalcontract
