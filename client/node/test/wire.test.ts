import assert from "node:assert/strict";
import test from "node:test";
import {
  type Command,
  FreeRequest,
  SubmitRequest,
  WriteBufferRequest,
} from "../src/generated/messages/aclnn/v1/device_service.js";
import { GetWorkspaceSizeRequest } from "../src/generated/messages/aclnn/v1/operator_service.js";
import { Argument } from "../src/generated/messages/aclnn/v1/tensor.js";
import {
  commandParts,
  introduction,
  joined,
  joinRequest,
  planParts,
  writeParts,
} from "../src/wire.js";

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

for (const size of [0, 1, 127, 128, 20_000, 3 * 2 ** 20]) {
  test(`a request with a write of ${size} bytes is what the generated code writes`, () => {
    const data = new Uint8Array(size).map((_, index) => index % 251);
    const write = { bufferId: 7n, offset: 2n ** 40n };
    const args = [
      Argument.create({ value: { $case: "int64Value", value: -1n } }),
      Argument.create(),
    ];
    const plan = GetWorkspaceSizeRequest.create({ executorId: 9n, operator: "aclnnX" });
    const free = { $case: "free", value: FreeRequest.create({ bufferId: 3n }) } as const;

    const request = joinRequest(5n, 4n, [
      ...writeParts(WriteBufferRequest.create(write), data),
      ...planParts(
        plan,
        args.map((argument) => Argument.encode(argument).finish()),
      ),
      ...commandParts(free),
    ]);

    const commands: Command["command"][] = [
      { $case: "writeBuffer", value: WriteBufferRequest.create({ ...write, data }) },
      { $case: "getWorkspaceSize", value: { ...plan, arguments: args } },
      free,
    ];
    const generated = SubmitRequest.create({
      sequence: 5n,
      acknowledged: 4n,
      commands: commands.map((command) => ({ command })),
    });
    assert.equal(hex(request), hex(SubmitRequest.encode(generated).finish()));
  });
}

test("a request that is introduced names its context", () => {
  const message = joined([introduction("epoch-context"), joinRequest(1n, 0n, [])]);
  assert.deepEqual(
    SubmitRequest.decode(message),
    SubmitRequest.create({ contextId: "epoch-context", sequence: 1n }),
  );
});
