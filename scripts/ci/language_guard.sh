#!/usr/bin/env bash
# Fails when names, summaries, short texts, comments or documents use words that docs/glossary.md
# rejects, beyond the budget in scripts/language/budget.yaml. The budget may only fall:
#   scripts/ci/language_guard.sh -write                 lower the budget to the present numbers
#   scripts/ci/language_guard.sh -list name -in agent   print every finding of a rule in a folder
set -euo pipefail
cd "$(dirname "$0")/../.."

CGO_ENABLED=0 go run ./scripts/language "$@"
