#!/usr/bin/env bash
# Fails if gofmt would change a Go file.
set -euo pipefail
cd "$(dirname "$0")/../.."

# New files count before they are committed.
unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 -r ls -d 2>/dev/null | xargs -r gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted (gofmt -w):" >&2
	echo "$unformatted" >&2
	exit 1
fi
