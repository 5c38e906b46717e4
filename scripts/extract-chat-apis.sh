#!/usr/bin/env bash
# Writes crates/testing/chat-platforms/data from the packages that hold the vendors' descriptions of their APIs.
set -euo pipefail
cd "$(dirname "$0")/chat-apis"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work"
"$work/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
"$work/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement requirements-documents.txt
"$work/bin/python" extract.py ../../crates/testing/chat-platforms/data
