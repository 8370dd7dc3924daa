/** The two phases, against a server: by position and by name, repeatable, refused. */

import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import {
  array,
  type Context,
  connect,
  ExecutorUsedError,
  execute,
  getWorkspaceSize,
  InvalidParameterError,
  NullPointerError,
  OperatorNotFoundError,
  ops,
  type Tensor,
  ViewOutsideStorageError,
} from "../src/index.js";
import { type Program, serve } from "./bench.js";

let program: Program;
let context: Context;

before(async () => {
  const [started, address] = await serve();
  program = started;
  context = await connect(address);
});

after(async () => {
  await context.close();
  await program.stop();
});

const ONES = new Float32Array(8).fill(1);
const RAMP = Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7);
const EIGHT = [-1, 0, 1, 1, 1, 1, 1, 1];

async function sample(): Promise<[Tensor, Tensor, Tensor, Tensor]> {
  const of = (data: Float32Array): Promise<Tensor> => context.tensor(data, [4, 2]);
  return [await of(ONES), await of(RAMP), await of(ONES), context.empty([4, 2], "float32")];
}

test("both phases by hand, as in C", async () => {
  const stream = await context.createStream();
  const [grad, x, target, gradInput] = await sample();
  const [size, executor] = await ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
    grad,
    x,
    target,
    0,
    1,
    gradInput,
  );
  assert.equal(executor.operator, "aclnnSmoothL1LossBackward");
  await ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream);
  await stream.synchronize();
  assert.deepEqual([...(await gradInput.read())], EIGHT);
  await stream.close();
});

test("arguments by name, and arrays that travel with the call", async () => {
  const self = array(RAMP, [4, 2]);
  const gradOutput = array(ONES, [4, 2]);
  const gradInput = context.empty([4, 2], "FLOAT");
  const [size, executor] = await ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
    { gradInput, beta: 1, reduction: 0n, target: gradOutput, self, gradOutput },
    { context },
  );
  await executor.run({ workspace: context.malloc(size) ?? undefined });
  assert.deepEqual([...(await gradInput.read())], EIGHT);
});

test("a large array is uploaded first", async () => {
  const data = new Float32Array(100_000).map((_, index) => index);
  const out = context.empty([100_000], "FLOAT");
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(data, out);
  await executor.run();
  assert.deepEqual(
    await out.read(),
    data.map((value) => -value),
  );
});

test("the call is enqueued before its function gives way", async () => {
  const x = await context.tensor(Float32Array.of(1, 2));
  const out = context.empty([2], "FLOAT");
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(x, out);
  const running = executor.run();
  x.free(); // sent after phase two, which keeps the memory
  await running;
  assert.deepEqual([...(await out.read())], [-1, -2]);
});

test("an equal call's workspace is known, and the call is checked all the same", async () => {
  const [x, out] = [await context.tensor(Float32Array.of(1)), context.empty([1], "FLOAT")];
  const before = context.commands.submitter.requestsSent;
  for (let turn = 0; turn < 50; turn++) {
    const [, executor] = await ops.aclnnSqrtGetWorkspaceSize(x, out);
    await executor.run();
  }
  await context.synchronize();
  // One wait for the first phase one, one for the end, and what was sent in between.
  assert.ok(context.commands.submitter.requestsSent - before <= 4);

  const gone = context.empty([1], "FLOAT");
  gone.free();
  const [, executor] = await ops.aclnnSqrtGetWorkspaceSize(gone, out); // equal, so it is not waited for
  await executor.run();
  await assert.rejects(context.synchronize(), { code: 107017, reason: "HANDLE_NOT_FOUND" });
});

test("a repeatable executor runs as often as wanted, with other tensors too", async () => {
  const x = await context.tensor(Float32Array.of(1, 2));
  const other = await context.tensor(Float32Array.of(5, 6));
  const [out, second] = [context.empty([2], "FLOAT"), context.empty([2], "FLOAT")];
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(x, out, { repeatable: true });
  for (let turn = 0; turn < 3; turn++) await executor.run();
  assert.deepEqual([...(await out.read())], [-1, -2]);
  await executor.run({ bindings: { self: other, out: second } });
  assert.deepEqual([...(await second.read())], [-5, -6]);

  const wide = context.empty([3], "FLOAT");
  await assert.rejects(
    executor.run({ bindings: { self: wide } }),
    /phase one planned another layout/,
  );
  await assert.rejects(executor.run({ bindings: { nix: x } }), { parameter: "nix", code: 161002 });
  await assert.rejects(
    executor.run({ bindings: { self: [x, x] } }),
    /has 2 tensors; phase one had 1/,
  );
  executor.destroy();
  await executor.run();
  await assert.rejects(context.synchronize(), { code: 107017 });
});

test("a one-shot executor that is used twice is told at the next wait", async () => {
  const [x, out] = [await context.tensor(Float32Array.of(1)), context.empty([1], "FLOAT")];
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(x, out);
  await executor.run();
  await executor.run();
  await assert.rejects(context.defaultStream.synchronize(), (error) => {
    assert.ok(error instanceof ExecutorUsedError);
    assert.equal(error.code, 200005);
    return true;
  });
  await context.defaultStream.synchronize(); // told once
});

test("refusals of the server have its class, code, operator and parameter", async () => {
  const [grad, x, target, gradInput] = await sample();
  const phaseOne = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize;
  await assert.rejects(phaseOne(grad, x, target, 0, -1, gradInput), (error) => {
    assert.ok(error instanceof InvalidParameterError);
    const { code, name, operator, parameter, reason } = error;
    assert.deepEqual(
      { code, name, operator, parameter, reason },
      {
        code: 161002,
        name: "ACLNN_ERR_PARAM_INVALID",
        operator: "aclnnSmoothL1LossBackward",
        parameter: "beta",
        reason: "INVALID_PARAMETER",
      },
    );
    assert.match(error.message, /beta is -1/);
    assert.match(error.stack!, /^ACLNN_ERR_PARAM_INVALID: aclnnSmoothL1LossBackward: beta is -1/);
    assert.match(error.stack!, /getWorkspaceSize/);
    return true;
  });
  await assert.rejects(phaseOne(grad, null, target, 0, 1, gradInput), NullPointerError);
  const outside = context.createTensor([4, 2], "FLOAT", { offset: 3, storageShape: [8] });
  await assert.rejects(phaseOne(grad, outside, target, 0, 1, gradInput), ViewOutsideStorageError);
  await assert.rejects(getWorkspaceSize("aclnnNix", [x]), OperatorNotFoundError);
});

test("what cannot be sent is refused here, and names the parameter", async () => {
  const [grad, x, target, gradInput] = await sample();
  const phaseOne = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize as (
    ...given: unknown[]
  ) => Promise<[number, unknown]>;
  const cases: [unknown[], string, RegExp][] = [
    [[grad, x, target, 0, "1", gradInput], "beta", /beta is "1", which is no float/],
    [[grad, x, target, 0.5, 1, gradInput], "reduction", /reduction is 0.5, which is no int64_t/],
    [[grad, 5, target, 0, 1, gradInput], "self", /self is 5, which is no tensor/],
    [[grad, undefined, target, 0, 1, gradInput], "self", /undefined; null is a null pointer/],
    [[grad, x, target, 0, 1, ONES], "gradInput", /an output must be a tensor of the context/],
    [[grad, x, target, 0, 1], "gradInput", /got 5 arguments; it takes 6/],
    [[{ self: x, gradOutput: grad }], "target", /the arguments by name must be/],
    [[{ nix: x }], "nix", /the arguments by name must be/],
    [[ONES, RAMP, ONES, 0, 1, null], "context", /no argument is a tensor/],
  ];
  for (const [given, parameter, message] of cases) {
    await assert.rejects(phaseOne(...given), { code: 161002, parameter, message });
  }
});

test("phase two checks what it is given", async () => {
  const [x, out] = [await context.tensor(Float32Array.of(1)), context.empty([1], "FLOAT")];
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(x, out);
  await assert.rejects(ops.aclnnAbs(null, 0, executor), /executor was planned for aclnnNeg/);
  await assert.rejects(ops.aclnnNeg(null, 0, {} as never), /which is no Executor/);
  await assert.rejects(
    ops.aclnnNeg(x as never, 4, executor),
    /workspace is .*; it must be a buffer or null/,
  );
  await assert.rejects(ops.aclnnNeg(null, -1, executor), { parameter: "workspaceSize" });
  await execute("aclnnNeg", null, 0, executor);
  assert.deepEqual([...(await out.read())], [-1]);
});

test("contexts do not mix", async () => {
  const other = await connect(context.address);
  const x = await context.tensor(Float32Array.of(1));
  const foreign = other.empty([1], "FLOAT");
  await assert.rejects(ops.aclnnNegGetWorkspaceSize(x, foreign), /not the same for all arguments/);
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(x, context.empty([1], "FLOAT"));
  await assert.rejects(executor.run({ stream: other.defaultStream }), { parameter: "stream" });
  assert.throws(
    () => context.createTensor([1], "FLOAT", { buffer: foreign.buffer }),
    /another context/,
  );
  await other.close();
});

test("memory that is not enough is told by the next wait", async () => {
  const [tight, address] = await serve("--max-context-bytes", "1000");
  const small = await connect(address);
  small.malloc(600);
  small.malloc(600);
  await assert.rejects(small.synchronize(), {
    code: 207001,
    reason: "OUT_OF_MEMORY",
    message: /^malloc, earlier: /,
  });
  await small.synchronize();
  await small.close();
  await tight.stop();
});

test("an output that is given as large as it may become takes its shape from the run", async () => {
  const x = await context.tensor(RAMP, [4, 2]);
  const mask = await context.tensor(Uint8Array.of(0, 1, 0, 1, 1, 0, 0, 0), [4, 2]);
  const waited = context.empty([8], "float32");
  const read = context.empty([8], "float32");
  for (const out of [waited, read]) {
    const [size, executor] = await ops.aclnnMaskedSelectGetWorkspaceSize(x, mask, out);
    await ops.aclnnMaskedSelect(context.malloc(size), size, executor);
  }
  assert.deepEqual([...(await read.read())], [1, 3, 4]);
  await context.synchronize();
  assert.deepEqual([waited.shape, waited.storageShape], [[3], [8]]);
});
