#!/bin/sh
# Installs Debian or Ubuntu packages of stores or of tools, as root: install-packages.sh <package> ...
# Their system services are not started: the local stack runs servers of its own on ports of its own.
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=${POLICY_FILE:-/usr/sbin/policy-rc.d}
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
apt-get update -q || echo "apt-get update failed; trying with the lists that are here" >&2
install() { apt-get install -q -y --no-install-recommends "$@"; }
install "$@" && exit 0
# One that cannot be had here must not keep out the others.
for package in "$@"; do install "$package" || failed=yes; done
[ -z "${failed:-}" ]
