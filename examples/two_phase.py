"""An operator by hand, with the vendor's two calls: plan, then execute on a stream."""

from __future__ import annotations

import numpy as np
from a_server import server_address

from aclnn_client import connect, ops


def main(address: str) -> None:
    grad_output = np.ones((4, 2), np.float32)
    self = np.arange(8, dtype=np.float32).reshape(4, 2)
    target = np.ones((4, 2), np.float32)

    with connect(address) as context:
        stream = context.create_stream()
        # Uploaded once; they stay on the device for as many calls as there will be.
        grad, x, y = (context.tensor(array) for array in (grad_output, self, target))
        grad_input = context.empty((4, 2), "float32")

        # Phase one: the arguments are checked and the work is planned. Nothing is computed.
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
            grad, x, y, 0, 1.0, grad_input
        )
        print(f"workspace: {size} bytes")

        # Phase two: the plan is queued on the stream, with scratch memory of the size it asked for.
        workspace = context.malloc(size)  # None where size is 0
        ops.aclnnSmoothL1LossBackward(workspace, size, executor, stream)

        stream.synchronize()  # a failure of the computation would be raised here
        print(grad_input.numpy())


if __name__ == "__main__":
    with server_address(__doc__) as address:
        main(address)
