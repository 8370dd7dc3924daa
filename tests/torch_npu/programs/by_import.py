"""Nothing is set; the import brings library, variables and a server, whose process it prints."""

import aclnn_client.torch_npu  # noqa: I001 - before torch

import os
from pathlib import Path

import torch

print(torch.ones(2, device="npu").sum().item())
address = os.environ["ACLNN_SERVER"].removeprefix("unix:")
for process in Path("/proc").iterdir():
    if process.name.isdecimal() and address.encode() in (process / "cmdline").read_bytes():
        print(process.name)
assert aclnn_client.torch_npu.__doc__
