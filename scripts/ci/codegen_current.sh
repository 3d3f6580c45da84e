#!/usr/bin/env bash
# Fails if `make gen` changes, adds or removes a generated file. The comparison uses the
# work tree and not the last commit, so that the guard also works before a commit. The
# generated files stay.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Every file is compared: generated files do not always have a header.
sums() {
	git ls-files -z --cached --others --exclude-standard | sort -z |
		while IFS= read -r -d '' file; do
			if [ -f "$file" ]; then printf '%s  %s\n' "$(git hash-object --no-filters -- "$file")" "$file"; fi
		done
}

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT

sums >"$before"
make --no-print-directory gen
sums >"$after"

if ! changed=$(diff "$before" "$after"); then
	echo "out of date, and now made again:" >&2
	sed -n 's/^[<>] [0-9a-f]*  /  /p' <<<"$changed" | sort -u >&2
	exit 1
fi
