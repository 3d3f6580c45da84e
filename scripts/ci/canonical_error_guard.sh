#!/usr/bin/env bash
# Fails if an error code is not in the contract, has no status, no advice or no row in
# docs/reference/errors.md, or if an API returns an error without a code.
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go test -tags nomsgpack -run '^(TestAnswers|TestAnswersAreCoded|TestContractListsTheCatalogueOfCodes|TestEveryCodeHasAStatus|TestEveryCodeHasAdvice|TestReference)$' \
	./internal/arch ./api/openapi ./api/rest/response ./api/rest/reference ./docs
