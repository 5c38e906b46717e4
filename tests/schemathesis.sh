#!/usr/bin/env bash
# Sends generated valid and invalid requests for every operation of the served OpenAPI document to a new daemon. Fails on
# any 5xx except the documented 502 and 503, and on any undocumented response. Omits streams and operations that would
# revoke the key in use. EXAMPLES sets the number of requests per operation.
set -euo pipefail
cd "$(dirname "$0")/.."
examples=${EXAMPLES:-10}
if [ ! -x .venv/bin/schemathesis ]; then
  echo "== installing schemathesis"
  python3 -m venv .venv
  .venv/bin/pip install --quiet --requirement scripts/schemathesis.txt
fi
# The same program as in the tests, so that it is already built.
cargo test --quiet --workspace --test it --no-run
folder=$(mktemp -d /tmp/agentd-schemathesis.XXXXXX)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
SVC_PORT=$port SVC_DATA_DIR=$folder/data SVC_MODELS_DIR=$PWD/models SVC_LOG=info target/debug/agentd 2>"$folder/log" &
daemon=$!
stop() { kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; rm -rf "$folder"; }
trap stop EXIT
url=http://127.0.0.1:$port
for _ in $(seq 100); do curl --silent --fail "$url/health/ready" >/dev/null && break; sleep 0.1; done
curl --silent --fail --output /dev/null "$url/health/ready" || { cat "$folder/log" >&2; exit 1; }
post() { curl --silent --fail "$url$1" -H 'Content-Type: application/json' "${@:3}" -d "$2"; }
post /api/auth/register '{"username": "owner", "password": "correct horse"}' >/dev/null
key=$(post /api/auth/keys '{"name": "schemathesis"}' | sed -n 's/.*"key":"\([^"]*\)".*/\1/p')
post /api/agents '{"svc_name": "ada", "user_name": "Owner", "archetype": "assistant"}' -H "Authorization: Bearer $key" >/dev/null

status=0
.venv/bin/schemathesis --config-file tests/schemathesis.toml run "$url/api/openapi.json" \
  --header "Authorization: Bearer $key" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance \
  --phases examples,coverage,fuzzing --max-examples "$examples" --seed 7 --no-shrink --request-timeout 90 \
  --exclude-path-regex '/stream$' --exclude-operation-id logout --exclude-operation-id rotate_key --exclude-operation-id delete_key \
  --suppress-health-check all --no-color || status=$?

# A refused request does not test its operation.
curl --silent --fail --output /dev/null "$url/api/agents" -H "Authorization: Bearer $key" || {
  echo "The key does not work any more, so that what came last was only refused." >&2
  status=1
}
# The duration of a transaction depends on the machine.
if grep -E ' (WARN|ERROR) ' "$folder/log" | grep -v 'a transaction held up all other writers'; then
  echo "The daemon logged above info on generated input." >&2
  status=1
fi
kill -0 "$daemon" || { echo "The daemon died." >&2; status=1; }
exit "$status"
