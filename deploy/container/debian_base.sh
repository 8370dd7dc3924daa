#!/bin/bash
# debian_base.sh: a root file system of Debian with Python and nothing else, as a tar archive on standard output.
set -euo pipefail
exec mmdebstrap --quiet --variant=minbase --include=python3,python3-venv \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' bookworm -
