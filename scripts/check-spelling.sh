#!/usr/bin/env bash
# Checks the spelling of the documentation and of the English sources, with a list of common misspellings.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! [ -x .venv/bin/codespell ]; then
  echo "== installing codespell"
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes --requirement scripts/codespell.txt
fi
# Files with German words are skipped. The ignored words are names in APIs, parts of words in tests, and deliberate errors.
ignored=abd,als,alle,doubleclick,hel,ist,nam,nd,nmae,netwrok,ser,sie,tage,te,thi,ue,uner,evry,valu,wasn,wronly,keep-alives
mapfile -t files < <(find ./*.md docs crates bench scripts .github -name target -prune -o -type f \
  \( -name '*.md' -o -name '*.rs' -o -name '*.sh' -o -name '*.yml' \) -print |
  grep -vE 'german|language|/lexicon/|crates/libs/(entities|schedule)/|/tests/')
.venv/bin/codespell --ignore-words-list "$ignored" "${files[@]}"
