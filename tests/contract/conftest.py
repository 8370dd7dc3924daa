"""The schema with its comments."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc


@pytest.fixture(scope="session")
def schema(project: Path, tmp_path_factory: pytest.TempPathFactory) -> list[FileDescriptorProto]:
    """The schema's files as protoc reads them, comments included."""
    root = project / "proto"
    out = tmp_path_factory.mktemp("schema") / "schema.bin"
    sources = [str(path.relative_to(root)) for path in sorted(root.glob("aclnn/**/*.proto"))]
    includes = [f"-I{root}", f"-I{files('grpc_tools') / '_proto'}"]
    options = [f"--descriptor_set_out={out}", "--include_source_info"]
    assert protoc.main(["protoc", *includes, *options, *sources]) == 0
    return list(FileDescriptorSet.FromString(out.read_bytes()).file)
