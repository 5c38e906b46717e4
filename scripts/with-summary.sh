#!/usr/bin/env bash
# Runs a test command and prints a summary of failures at the end, because their output may be thousands of lines above.
set -euo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$@" 2>&1 | tee "$log" || status=$?
if [ "$status" -ne 0 ]; then
  printf '\n== failed tests\n'
  # Names of failed tests and compile errors, then panics and failed rows of suites that print tables.
  grep -E '^test .*FAILED$|^error' "$log" | sort -u | head -n 40 || true
  grep -E -A 6 '^thread .* panicked at|^    DOES NOT|[[:space:]]NO([[:space:]]|$)' "$log" | head -n 120 || true
fi
exit "$status"
