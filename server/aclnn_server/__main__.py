"""``python -m aclnn_server`` is ``aclnn-serve``."""

import sys

from aclnn_server.cli import main

if __name__ == "__main__":
    sys.exit(main())
