"""PyTorch without an NPU: imported before torch, it makes the device "npu" a server of aclnn-serve.

::

    import aclnn_client.torch_npu
    import torch

    x = torch.ones(4, device="npu")

The server is the one that ``ACLNN_SERVER`` names, else one on this machine's processor that starts now and
ends with the program. See docs/pytorch.md.

Raises:
    SetupError: what is missing, and what brings it. It is an ImportError.
"""

from aclnn_client.pytorch import activate

activate()
