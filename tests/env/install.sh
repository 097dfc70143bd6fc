#!/usr/bin/env bash
# Installs Debian packages. Waits while another program uses apt, because a machine may update its lists at any moment.
#
# usage: install.sh PACKAGE…
set -euo pipefail

# Seconds to wait for apt's locks.
patience=600

[ $# -gt 0 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt itself waits for dpkg's locks only.
until LC_ALL=C apt-get update -q >"$log" 2>&1; do
    if ! grep -q 'Could not get lock' "$log" || [ $SECONDS -ge $patience ]; then
        cat "$log" >&2
        exit 1
    fi
    sleep 1
done
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=$patience "$@"
