#!/usr/bin/env bash
# Tests the drivers with their real counterparts, each built or fetched once. It prints which were reached, and fails if a
# test failed or a counterpart could not be had.
set -uo pipefail
cd "$(dirname "$0")/.."

reached=() failed=()
for target in test-vault test-step-ca test-keycloak test-s3 test-s3-clients test-edge test-prometheus; do
	if "${MAKE:-make}" --no-print-directory "$target"; then
		reached+=("${target#test-}")
	else
		failed+=("${target#test-}")
	fi
done
echo "reached: ${reached[*]:-none}; failed or not reached: ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
