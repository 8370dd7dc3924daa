/**
 * An operator by hand, with the vendor's two calls, then the same in one line: node two_phase.mjs [ADDRESS]
 *
 * Before the first run: (cd ../../client/node && npm ci && npm run build) && npm install
 */

import { AclnnError, array, connect, ops } from "aclnn-client";

const address = process.argv[2] ?? "localhost:50051";

const gradOutput = new Float32Array(8).fill(1);
const self = Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7);
const target = new Float32Array(8).fill(1);

const context = await connect(address);
try {
  const stream = await context.createStream();
  // Uploaded once; they stay on the device for as many calls as there will be.
  const grad = await context.tensor(gradOutput, [4, 2]);
  const x = await context.tensor(self, [4, 2]);
  const y = await context.tensor(target, [4, 2]);
  const gradInput = context.empty([4, 2], "float32");

  // Phase one: the arguments are checked and the work is planned. Nothing is computed.
  const [size, executor] = await ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(grad, x, y, 0, 1.0, gradInput);
  console.log(`workspace: ${size} bytes`);

  // Phase two: the plan is queued on the stream, with scratch memory of the size it asked for.
  const workspace = context.malloc(size); // null where size is 0
  await ops.aclnnSmoothL1LossBackward(workspace, size, executor, stream);

  await stream.synchronize(); // a failure of the computation would be thrown here
  console.log(...(await gradInput.read()));

  // In one line: arrays in, array out, one round trip.
  const [g, a, b] = [gradOutput, self, target].map((data) => array(data, [4, 2]));
  const mean = await context.ops.smoothL1LossBackward(g, a, b, { reduction: "mean", beta: 1.0 });
  console.log(...mean.data);

  // What cannot be computed says which check failed, with the code that the C call returns.
  await context.ops.smoothL1LossBackward(g, a, b, { beta: -1.0 });
} catch (error) {
  if (!(error instanceof AclnnError)) throw error;
  console.log(`refused with ${error.code} ${error.name}: ${error.parameter} is at fault`);
} finally {
  await context.close();
}
