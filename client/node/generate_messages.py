"""Writes the TypeScript code of the schema's messages: ``src/generated/messages``.

    python client/node/generate_messages.py           # write
    python client/node/generate_messages.py --check   # compare only; exits 1 and names the files that differ

Needs grpcio-tools, and ts-proto in node_modules (`npm ci`). Messages of google.rpc, in which gRPC's status
describes an error, are written beside those of aclnn.v1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from google.rpc import status_pb2
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
MESSAGES = HERE / "src" / "generated" / "messages"
SCHEMA = (
    *(
        f"aclnn/v1/{name}.proto"
        for name in ("device_service", "error", "operator_service", "tensor")
    ),
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
)
OPTIONS = (
    "forceLong=bigint",  # 64-bit integers are BigInt
    "oneof=unions-value",
    "comments=false",  # they are in the schema
    "outputServices=none",  # the calls are made with bytes
    "outputJsonMethods=false",
    "useExactTypes=false",
    "exportCommonSymbols=false",
    "unrecognizedEnum=false",
    "removeEnumPrefix=true",
    "esModuleInterop=true",
    "importSuffix=.js",
    "annotateFilesWithVersion=false",
)


def generate(into: Path) -> bool:
    """Writes every file under ``into``; false where protoc refused, which said why."""
    google = Path(status_pb2.__file__).parents[2]
    includes = (PROTO, google, files("grpc_tools") / "_proto")
    plugin = HERE / "node_modules" / ".bin" / "protoc-gen-ts_proto"
    command = [
        "protoc",
        *(f"-I{folder}" for folder in includes),
        f"--plugin=protoc-gen-ts_proto={plugin}",
        f"--ts_proto_out={into}",
        f"--ts_proto_opt={','.join(OPTIONS)}",
        *SCHEMA,
    ]
    return bool(protoc.main(command) == 0)


def _texts(root: Path) -> dict[Path, str]:
    return {path.relative_to(root): path.read_text("utf-8") for path in root.rglob("*.ts")}


def main() -> int:
    """Runs the command line; returns the exit code: 0 done or current, 1 stale or refused."""
    parser = argparse.ArgumentParser(description="Generate the TypeScript code of the schema.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when stale")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not generate(Path(folder)):
            return 1
        fresh = _texts(Path(folder))
    old = _texts(MESSAGES)
    stale = sorted(path for path in fresh.keys() | old.keys() if fresh.get(path) != old.get(path))
    for path in stale:
        print(f"stale: {path}; run `npm run generate`" if options.check else f"wrote {path}")
        if options.check:
            continue
        if path in fresh:
            (MESSAGES / path).parent.mkdir(parents=True, exist_ok=True)
            (MESSAGES / path).write_text(fresh[path], "utf-8")
        else:
            (MESSAGES / path).unlink()
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
