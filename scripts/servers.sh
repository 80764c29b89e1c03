#!/usr/bin/env bash
# servers.sh — see to it that the servers and programs of tests and demo are here.
#
# Installs only what is missing, from Debian packages. Where that is not possible it names what is
# missing and goes on: tests that need it skip. With CI set, something missing is a failure.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"

# command (or a glob of paths) and the Debian package that brings it
wanted=(
    'prometheus prometheus'
    'prometheus-alertmanager prometheus-alertmanager'
    'prometheus-node-exporter prometheus-node-exporter'
    '/usr/lib/postgresql/*/bin/initdb postgresql'
    'redis-server redis-server'
    'nats-server nats-server'
    'strace strace'
    'shellcheck shellcheck'
)

# Some Debian systems keep server programs where only root's PATH looks.
PATH="$PATH:/usr/sbin:/sbin"

missing() {
    local entry command
    for entry in "${wanted[@]}"; do
        command="${entry% *}"
        if [[ $command == /* ]]; then
            compgen -G "$command" >/dev/null || echo "${entry##* }"
        else
            command -v "$command" >/dev/null || echo "${entry##* }"
        fi
    done
}

mapfile -t packages < <(missing)
[ "${#packages[@]}" -eq 0 ] && exit 0

echo "servers: ${packages[*]} missing; installing with apt-get where that is possible"
status=0
"$here/apt-install.sh" "${packages[@]}" || status=$?
mapfile -t packages < <(missing)
[ "${#packages[@]}" -eq 0 ] && exit 0

if [ "$status" -eq 3 ]; then
    why='this is not a Debian-like system with root or password-free sudo'
else
    why="apt-get failed with status $status"
fi
{
    echo "servers: missing, because $why: ${packages[*]}"
    echo 'servers: install them by hand (the names are Debian packages); tests that need them skip'
} >&2
if [ -n "${CI:-}" ]; then
    echo 'servers: CI is set, so this is a failure' >&2
    exit 1
fi
