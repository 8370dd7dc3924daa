"""The same operator in one line: NumPy arrays in, NumPy array out, one round trip."""

from __future__ import annotations

import numpy as np
from a_server import server_address

from aclnn_client import AclnnError, connect


def main(address: str) -> None:
    grad_output = np.ones((4, 2), np.float32)
    self = np.arange(8, dtype=np.float32).reshape(4, 2)
    target = np.ones(2, np.float32)  # broadcasts

    with connect(address) as context:
        gradient = context.ops.smooth_l1_loss_backward(
            grad_output, self, target, reduction="mean", beta=1.0
        )
        print(gradient)

        # What cannot be computed says why, with the code that the C call would return.
        try:
            context.ops.smooth_l1_loss_backward(grad_output, self, target, beta=-1.0)
        except AclnnError as error:
            print(f"refused with {error.code} {error.name}: {error.parameter} is at fault")
            print(error.message)


if __name__ == "__main__":
    with server_address(__doc__) as address:
        main(address)
