#!/usr/bin/env bash
# Installs what a private cluster needs besides Go: the server
# binaries of PostgreSQL; with --browser also the Chromium that the end-to-end
# tests sign in with, with --rig the tools that boot Debian containers, with --storage the
# S3 tools of the tests of the S3 endpoint and what mounts need, with --edge the proxies of deploy/edge, with
# --observability Prometheus. Prints nothing
# if they are installed; prints one line and fails if it cannot install them.
set -euo pipefail

oldest=15
need="PostgreSQL $oldest or newer is"

# Prints the major version of the newest server that is installed, or nothing.
installed() {
	local dir
	for dir in ${GPUAAS_PG_BIN:+"$GPUAAS_PG_BIN"} /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
		/opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin /home/linuxbrew/.linuxbrew/opt/postgresql*/bin \
		"$(dirname "$(readlink -f "$(command -v initdb || echo /nowhere/initdb)")")"; do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			"$dir/postgres" --version | sed -n 's/.*(PostgreSQL) \([0-9]*\).*/\1/p'
		fi
	done | sort -n | tail -n 1
}

enough() { [ "$(installed || true)" -ge "$oldest" ] 2>/dev/null; }

give_up() {
	echo "$need needed: install the package $1" >&2
	exit 1
}

root=()
become_root() {
	[ "$(id -u)" -eq 0 ] && return
	# Only without a password prompt: a build must not wait for one.
	command -v sudo >/dev/null && sudo -n true 2>/dev/null || give_up "$1"
	root=(sudo -n)
}

quietly() {
	local log
	log=$(mktemp)
	if ! ${root[@]+"${root[@]}"} "$@" >"$log" 2>&1 </dev/null; then
		tail -n 3 "$log" >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}

# Installs what apt, dnf, apk and brew call by these names; a name may be several.
fetch() {
	local package apt
	if command -v apt-get >/dev/null; then
		package=$1
		become_root "$package"
		echo "installing the package $package" >&2
		apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends)
		quietly "${apt[@]}" install $package 2>/dev/null || {
			quietly "${apt[@]}" update || true
			quietly "${apt[@]}" install $package || give_up "$package"
		}
	elif command -v dnf >/dev/null; then
		package=$2
		become_root "$package"
		echo "installing the package $package" >&2
		quietly dnf -y -q install $package || give_up "$package"
	elif command -v apk >/dev/null; then
		package=$3
		become_root "$package"
		echo "installing the package $package" >&2
		quietly apk add --no-progress $package || give_up "$package"
	elif command -v brew >/dev/null; then
		package=$4
		echo "installing the package $package" >&2
		quietly brew install --quiet $package || give_up "$package"
	else
		give_up "$1"
	fi
}

enough || {
	fetch postgresql "postgresql-server postgresql-contrib" "postgresql16 postgresql16-contrib" postgresql@16
	# An old distribution installs an old server.
	enough || give_up "postgresql-16 (see https://www.postgresql.org/download)"
}

wants() {
	local given
	for given in "${wanted[@]}"; do [ "$given" = "$1" ] && return; done
	return 1
}

wanted=("" "$@")
if wants --browser && ! command -v chromedriver >/dev/null; then
	need="Chromium with its WebDriver is"
	fetch "chromium chromium-driver" "chromium chromedriver" "chromium chromium-chromedriver" chromedriver
fi

# The rig boots Debian containers with systemd-nspawn: only root starts them, and only on
# Linux. Elsewhere their tests skip with the reason, so that nothing is missing here.
if wants --rig && [ "$(uname)" = Linux ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	for tool in mmdebstrap systemd-nspawn ip rsync; do
		command -v "$tool" >/dev/null && continue
		need="The software that boots Debian containers for tests is"
		fetch "mmdebstrap systemd-container iproute2 util-linux rsync"
		break
	done
fi

# The S3 tools that the tests of the S3 endpoint run: rclone of the distribution, and aws-cli and boto3 in an environment of
# their own. A mount of files needs fusermount3.
if wants --storage; then
	if ! command -v rclone >/dev/null; then
		need="rclone is"
		fetch rclone rclone rclone rclone
	fi
	# Only Linux mounts: elsewhere the tests of mounts skip with the reason.
	if [ "$(uname)" = Linux ] && ! command -v fusermount3 >/dev/null; then
		need="FUSE is"
		fetch fuse3 fuse3 fuse3 ""
	fi
	clients="$(dirname "$0")/../bin/s3-clients"
	if [ ! -x "$clients/bin/aws" ]; then
		echo "installing aws-cli and boto3 in bin/s3-clients" >&2
		python3 -m venv "$clients" && quietly "$clients/bin/pip" install --quiet awscli==1.46.3 boto3==1.44.8 || {
			rm -rf "$clients"
			echo "aws-cli and boto3 are needed: install Python 3 with venv, and reach PyPI" >&2
			exit 1
		}
	fi
fi

if wants --observability && ! command -v prometheus >/dev/null; then
	need="Prometheus is"
	fetch prometheus "golang-github-prometheus" prometheus prometheus
fi

if wants --edge; then
	for proxy in nginx caddy; do
		command -v "$proxy" >/dev/null && continue
		need="$proxy is"
		fetch "$proxy" "$proxy" "$proxy" "$proxy"
	done
fi
