#!/usr/bin/env bash
# apt-install.sh PACKAGE... — install Debian packages without starting or enabling their services.
#
# Exit status: 0 installed, 3 not possible here (no apt-get, or not root and no sudo without a
# password), anything else is apt-get's own failure. Services that run already are left alone.
set -euo pipefail

policy=/usr/sbin/policy-rc.d
policy_is_ours=

cleanup() {
    if [ -n "$policy_is_ours" ]; then
        "${root[@]}" rm -f "$policy"
    fi
    rm -f "$log"
}

command -v apt-get >/dev/null || exit 3
root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then exit 3; fi
    root=(sudo -n)
fi
log="$(mktemp)"
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

quietly() {
    if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; then
        tail -n 25 "$log" >&2
        return 1
    fi
}

# A new package's service asks for `start`, one that ran before an upgrade for `restart`: refusing
# the first only leaves running services as they were. A policy that is there already stays.
if [ ! -e "$policy" ]; then
    policy_is_ours=yes
    "${root[@]}" install -m 755 /dev/stdin "$policy" <<'POLICY'
#!/bin/sh
if [ "$2" = start ]; then exit 101; fi
exit 0
POLICY
fi

installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii  *//p' | sort; }
before="$(installed)"

# With the network away, what is in the package cache can still be installed.
quietly apt-get update -q || true
quietly apt-get install -qy --no-install-recommends "$@"

command -v systemctl >/dev/null || exit 0
disable=(systemctl --quiet disable)
# A policy that was there already may have let them start. Without systemd as init `--now` fails.
if [ -d /run/systemd/system ]; then disable+=(--now); fi
# Also what came along (postgresql brings postgresql-common), but nothing that was there before.
comm -13 <(printf '%s\n' "$before") <(installed) |
    { grep -E '^(prometheus|postgresql|redis|nats)' || true; } |
    while read -r package; do
        dpkg -L "$package" | sed -n 's,^\(/usr\)\?/lib/systemd/system/\([^/@]*\.\(service\|timer\|socket\)\)$,\2,p'
    done | sort -u |
    while read -r unit; do
        "${root[@]}" "${disable[@]}" "$unit" >/dev/null 2>&1 </dev/null ||
            echo "could not disable $unit: see 'systemctl status $unit'" >&2
    done
