#!/usr/bin/env bash
# Fails if neither a binary nor the build of a version can reach a function and
# scripts/ci/deadcode_allowed.txt does not list it, or if a listed function can be reached or is gone.
set -euo pipefail
cd "$(dirname "$0")/../.."

deadcode=${1:?path of the deadcode program; make check builds it}
unreachable=$(CGO_ENABLED=0 "$deadcode" -tags nomsgpack -filter '^github.com/gpuaas/gpuaas/' \
	-f '{{range .Funcs}}{{printf "%s.%s\n" $.Path .Name}}{{end}}' ./cmd/... ./scripts/release | sed 's,^github.com/gpuaas/gpuaas/,,' | LC_ALL=C sort)
allowed=$(sed -n 's/^\([^# ][^ ]*\) .*/\1/p' scripts/ci/deadcode_allowed.txt | LC_ALL=C sort)
new=$(LC_ALL=C comm -23 <(echo "$unreachable") <(echo "$allowed"))
old=$(LC_ALL=C comm -13 <(echo "$unreachable") <(echo "$allowed"))
[ -z "$new" ] || printf 'no binary reaches these functions; delete them:\n%s\n' "$new" >&2
[ -z "$old" ] || printf 'delete these lines of scripts/ci/deadcode_allowed.txt:\n%s\n' "$old" >&2
[ -z "$new$old" ]
