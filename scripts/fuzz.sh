#!/usr/bin/env bash
# Runs every fuzz target of the module, each for FUZZTIME (default 10m), and prints one line for each. Arguments limit
# the packages. What fails is left in testdata/fuzz of its package, where every later test runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${FUZZTIME:-10m}
failed=
while read -r package; do
	for target in $(go test -tags nomsgpack -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		if out=$(go test -tags nomsgpack -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" 2>&1); then
			printf '%s %s: %s\n' "${package#github.com/gpuaas/gpuaas/}" "$target" "$(grep 'fuzz: elapsed' <<<"$out" | tail -1 | sed 's/^fuzz: //')"
		else
			printf '%s %s: FAILED\n%s\n' "$package" "$target" "$out"
			failed=1
		fi
	done
done < <(grep -rl --include='*_test.go' '^func Fuzz' "${@:-.}" | xargs -n1 dirname | sort -u | sed 's,^\./,,; s,^,github.com/gpuaas/gpuaas/,')
[ -z "$failed" ]
