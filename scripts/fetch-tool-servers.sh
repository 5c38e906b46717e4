#!/usr/bin/env bash
# Installs the tool servers used by the tests into the directory DEST, pinned by checksum.
#
# Package managers run without the install scripts of packages. A directory created from the same pins
# is kept; the stamp is written last, so an interrupted installation is repeated.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: $0 DEST" >&2
  exit 2
fi
destination="$1"
here="$(cd "$(dirname "$0")" && pwd)"
pins="$here/tool-servers"
stamp="$(cat "$here/fetch-tool-servers.sh" "$pins"/* | sha256sum | cut -d ' ' -f 1)"

if [ "$(cat "$destination/stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "tool servers: $destination is up to date"
  exit 0
fi

if ! { command -v node && command -v npm; } >/dev/null; then
  "$here/install-packages.sh" nodejs npm
fi

mkdir -p "$destination"
destination="$(cd "$destination" && pwd)"
rm -rf "$destination"/{stamp,node_modules,python,python-older}

echo "tool servers: installing npm packages"
cp "$pins/package.json" "$pins/package-lock.json" "$destination/"
npm ci --prefix "$destination" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error

for name in python python-older; do
  echo "tool servers: installing Python packages ($name)"
  python3 -m venv "$destination/$name"
  "$destination/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --only-binary=:all: --require-hashes --requirement "$pins/$name.txt"
done

# Written last, so that an interrupted installation is repeated.
echo "$stamp" > "$destination/stamp"
echo "tool servers: $destination is ready"
