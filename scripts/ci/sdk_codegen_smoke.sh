#!/usr/bin/env bash
# Fails if a client cannot be generated from the whole contract, or does not compile.
# Our own client is generated without the bodies of errors.
set -euo pipefail
cd "$(dirname "$0")/../.."

# A path that is reused, so that an unchanged client is not compiled again; its
# underscore excludes it from ./...
out=bin/_sdk
mkdir -p "$out"
go tool oapi-codegen -package client -generate types,client -o "$out/client.go" api/openapi/openapi.yaml
CGO_ENABLED=0 go build "$out/client.go"
