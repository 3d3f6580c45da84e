#!/usr/bin/env bash
# Fetches a Keycloak distribution with Maven, compares its digest, and unpacks it into bin/.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$1
declare -A digests=([26.5.6]=fa3dd5df90b9ac006712c2f0991be4e8a6cb30ac538e0439ce2f45fc40f4c692)
command -v mvn >/dev/null && command -v java >/dev/null || {
	echo "a test with a real Keycloak needs Java 17 and Maven: apt-get install openjdk-17-jre-headless maven" >&2
	exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
	-Dartifact="org.keycloak:keycloak-quarkus-dist:$version:tar.gz" -DoutputDirectory="$dir" >&2
archive=$dir/keycloak-quarkus-dist-$version.tar.gz
echo "${digests[$version]}  $archive" | sha256sum --check --quiet
mkdir -p bin
tar -xzf "$archive" -C bin
