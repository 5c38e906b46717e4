#!/usr/bin/env bash
# Runs the tests that a command starts. When some fail, says at the end which and why: what they printed may be
# thousands of lines above by then.
set -euo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$@" 2>&1 | tee "$log" || status=$?
if [ "$status" -ne 0 ]; then
  printf '\n== what failed\n'
  # Tests by name, then their panics, compile errors, and the rows of suites that print tables.
  grep -E '^test .*FAILED$|^error' "$log" | sort -u | head -n 40 || true
  grep -E -A 6 '^thread .* panicked at|^    DOES NOT|[[:space:]]NO([[:space:]]|$)' "$log" | head -n 120 || true
fi
exit "$status"
