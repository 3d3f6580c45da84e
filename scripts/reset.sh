#!/usr/bin/env bash
# Removes the development data, unless something still runs on it.
set -euo pipefail
cd "$(dirname "$0")/.."

data=.gpuaas
[ -e "$data" ] || exit 0

# Each directory in use has a lock file with its owner's pid, which stays behind
# when the owner is killed. Where there is flock, the kernel knows better.
while IFS= read -r lock; do
	pid=$(head -n 1 "$lock" || true)
	if command -v flock >/dev/null; then
		flock --nonblock "$lock" true && continue
	elif [ -z "$pid" ] || ! kill -0 "$pid" 2>/dev/null; then
		continue
	fi
	echo "$data is in use by process ${pid:-unknown}: stop it first" >&2
	exit 1
done < <(find "$data" -maxdepth 3 -type f -name lock)

rm -rf "$data"
