#!/bin/bash
# build.sh [IMAGE]: builds the image from this clone, with the base image that BASE names.
#
# BASE=debian makes a base of Debian's own packages, for machines that reach no registry of images; left out, it
# is the Dockerfile's default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
image=${1:-aclnn-serve}
base=${BASE:-}
engine=deploy/container/engine.sh

if [[ $base == debian ]]; then
    base=localhost/aclnn-serve-base
    "$engine" image inspect "$base" >/dev/null 2>&1 || deploy/container/debian_base.sh | "$engine" import - "$base"
fi

options=(--build-arg "REVISION=$(git describe --always --dirty 2>/dev/null || echo unknown)")
[[ -z $base ]] || options+=(--build-arg "BASE=$base")
# What this machine trusts, for a package index behind a certificate of the company's own.
certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
[[ ! -r $certificates ]] || options+=(--secret "id=ca,src=$certificates")

"$engine" build "${options[@]}" --tag "$image" .
"$engine" image inspect --format '{{.Id}} {{.Size}} bytes' "$image"
