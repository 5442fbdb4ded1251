#!/bin/sh
# Prepares a fresh clone: installs the packages when they are missing or older than the lock file, and makes sure
# that the pinned Node is there. Needs only npm and any Node from 20 on.
set -eu
cd "$(dirname "$0")/../../.."

say() { printf '%s\n' "$*" >&2; }

is_installed() {
  [ -f node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ] && has_node
}

has_node() {
  case $(node_modules/.bin/node --version 2>/dev/null || true) in
    v24.*) return 0 ;;
    *) return 1 ;;
  esac
}

# Inside an npm script the pinned Node comes first in PATH, and `npm ci` deletes it while it works.
without_pinned_node() {
  PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v '/node_modules/' | tr '\n' ':')
  export PATH
  "$@"
}

is_installed && exit 0
say "Installing packages (npm ci), about a minute on a slow line ..."
if ! (without_pinned_node npm ci --no-audit --no-fund --loglevel=error >&2); then
  say "npm ci failed; its message is above. Nothing else was changed: repair that and start again."
  exit 1
fi
if ! has_node; then
  say "node_modules/.bin/node is not Node 24. It comes with the npm package \"node\", whose install script must run:"
  say "check that npm is not set to ignore-scripts, then: rm -rf node_modules && npm ci"
  exit 1
fi
say "Packages are installed."
