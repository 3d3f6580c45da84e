#!/usr/bin/env bash
# Builds, compares or tests the portal where Node is present, and states where it is not.
#   scripts/portal.sh build     build web/dist
#   scripts/portal.sh compare   build in another folder, and fail if the bytes differ from web/dist
#   scripts/portal.sh test      run the tests of web/test; without node_modules they are not run
set -euo pipefail
cd "$(dirname "$0")/../web"

has_node() { node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; }

case $1 in
build)
	has_node || { echo "the portal is built with Node 20.19 or newer" >&2; exit 1; }
	npm ci --silent
	npm run --silent build
	;;
compare)
	has_node || { echo "portal: not rebuilt, because there is no Node 20.19 or newer"; exit 0; }
	[ -e dist/index.html ] || { echo "portal: not compared, because web/dist is not built"; exit 0; }
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	tar -c --exclude=./node_modules --exclude=./dist . | tar -x -C "$copy"
	(cd "$copy" && npm ci --silent && npm run --silent build)
	# The bytes of compressed files depend on the version of Node, so what they contain is compared.
	node -e '
		const { readFileSync, readdirSync } = require("node:fs"), zlib = require("node:zlib");
		const decode = { gz: zlib.gunzipSync, br: zlib.brotliDecompressSync };
		for (const name of readdirSync("dist/assets").filter((name) => /\.(gz|br)$/.test(name))) {
			const plain = readFileSync(`dist/assets/${name.slice(0, -3)}`);
			if (!decode[name.slice(-2)](readFileSync(`dist/assets/${name}`)).equals(plain)) throw new Error(`${name} has other bytes`);
		}'
	if ! diff -rq --exclude='*.gz' --exclude='*.br' --exclude=SOURCE "$copy/dist" dist; then
		echo "web/dist differs from its sources: make portal" >&2
		exit 1
	fi
	;;
test)
	if has_node && [ -d node_modules ]; then
		npm run --silent test
	else
		echo "portal: its tests are not run, because Node 20.19 or web/node_modules is missing (make portal)"
	fi
	;;
esac
