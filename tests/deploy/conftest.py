"""Tests of containers are there where an image is: `make container` builds one."""

from __future__ import annotations

import os

collect_ignore = (
    [] if os.environ.get("CONTAINER_IMAGE") else ["test_bare_metal.py", "test_container.py"]
)
