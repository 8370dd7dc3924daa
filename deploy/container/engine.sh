#!/bin/bash
# engine.sh ARGUMENT...: docker, or podman where no Docker engine answers, with these arguments.
set -euo pipefail

if docker version >/dev/null 2>&1; then
    exec docker "$@"
fi
if ! command -v podman >/dev/null; then
    echo "neither a Docker engine nor podman is there; on Debian: apt-get install podman runc" >&2
    exit 1
fi

# Podman asks for more files and processes than its own process may have, which fails without CAP_SYS_RESOURCE;
# and crun, its first choice, cannot start a container where cgroups of both versions have controllers.
config=$(mktemp)
trap 'rm -f "$config"' EXIT
cat >"$config" <<EOF
[containers]
default_ulimits = ["nofile=$(ulimit -Sn):$(ulimit -Hn)", "nproc=4096:4096"]
[engine]
runtime = "$(command -v runc >/dev/null && echo runc || echo crun)"
EOF
# Health checks are no part of the format that podman would choose for images.
BUILDAH_FORMAT=docker CONTAINERS_CONF=$config podman "$@"
