#!/usr/bin/env bash
# Fails when a code is not in the contract, has no status, no advice or no place in
# docs/reference/errors.md, or when a door answers an error that has no code.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestAnswers|TestAnswersAreCoded|TestContractListsTheCatalogueOfCodes|TestEveryCodeHasAStatus|TestEveryCodeHasAdvice|TestReference)$' \
	./internal/arch ./api/openapi ./api/rest ./api/rest/reference ./docs
