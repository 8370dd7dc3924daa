#!/bin/sh
# What `make test-node` runs. Without Node.js it says so; in continuous integration that is an error.
set -eu
cd "$(dirname "$0")"

if ! node -e 'const [major, minor] = process.versions.node.split(".").map(Number);
              process.exit(major * 100 + minor >= 1818 ? 0 : 1)' 2>/dev/null || ! npm --version >/dev/null 2>&1
then
  echo "test-node: skipped: no Node.js of 18.18 or newer with npm on the PATH"
  if [ -n "${CI:-}" ]; then exit 1; fi
  exit 0
fi

if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
  npm ci --silent
fi
npm run --silent check
npm test --silent
cd ../..
"${ACLNN_PYTHON:-.venv/bin/python}" -m tests.conformance --client "node client/node/build/conformance/adapter.js"
