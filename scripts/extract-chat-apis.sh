#!/usr/bin/env bash
# Generates crates/testing/chat-platforms/data from the packages with the platforms' API descriptions.
set -euo pipefail
cd "$(dirname "$0")/chat-apis"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work"
"$work/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
"$work/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement requirements-documents.txt
"$work/bin/python" extract.py ../../crates/testing/chat-platforms/data
