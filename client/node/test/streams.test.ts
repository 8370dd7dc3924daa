/** Streams, events, waits that end early, failures that are told later: with kernels that are held up. */

import assert from "node:assert/strict";
import test, { after, afterEach, before, beforeEach } from "node:test";
import { type Context, connect, ops, type Stream, type Tensor } from "../src/index.js";
import { Bench } from "./bench.js";

let bench: Bench;
let context: Context;

before(async () => {
  bench = await Bench.start();
});

after(() => bench.stop());

beforeEach(async () => {
  context = await connect(bench.address);
});

afterEach(async () => {
  await bench.do("release");
  await context.close();
});

/** Elements of a tensor whose work has a thread of its own. */
const LARGE = 300_000;

async function negate(x: Tensor, out: Tensor, stream?: Stream): Promise<void> {
  const [size, executor] = await ops.aclnnNegGetWorkspaceSize(x, out);
  await ops.aclnnNeg(context.malloc(size), size, executor, stream);
}

/** A tensor of one value, and one for the result. */
async function pair(value: number): Promise<[Tensor, Tensor]> {
  const x = await context.tensor(new Float32Array(LARGE).fill(value));
  return [x, context.empty([LARGE], "FLOAT")];
}

test("a time limit ends the wait, and not the work", async () => {
  const [x, out] = await pair(1);
  await bench.do("hold");
  await negate(x, out);
  const { defaultStream } = context;
  await assert.rejects(defaultStream.synchronize({ timeout: 1 }), {
    code: 507046,
    reason: "WAIT_TIMEOUT",
  });
  assert.equal(await defaultStream.query(), false);
  await bench.do("release");
  await defaultStream.synchronize({ timeout: 30_000 });
  assert.equal(await defaultStream.query(), true);
  assert.equal((await out.read())[0], -1);
});

test("an abort ends the wait with the signal's reason; failures are told by the next one", async () => {
  const [x, out] = await pair(1);
  await bench.do("hold");
  await bench.do("fail", { where: "run", reason: "EXECUTION_FAILED" });
  await negate(x, out);
  const reason = new Error("enough");
  const abort = new AbortController();
  const waiting = context.defaultStream.synchronize({ signal: abort.signal });
  await bench.do("wait_held");
  abort.abort(reason);
  await assert.rejects(waiting, (error) => error === reason);
  await assert.rejects(
    out.read({ signal: AbortSignal.abort(reason) }),
    (error) => error === reason,
  );
  await bench.do("release");
  await assert.rejects(context.defaultStream.synchronize(), {
    code: 361001,
    reason: "EXECUTION_FAILED",
  });
  await context.defaultStream.synchronize();
});

test("events order streams, and tell time", async () => {
  const [first, second] = [await context.createStream(), await context.createStream()];
  const [x, between] = await pair(3);
  const out = context.empty([LARGE], "FLOAT");
  const [start, done] = [context.createEvent(), context.createEvent()];
  await bench.do("hold");
  start.record(first);
  await negate(x, between, first);
  done.record(first);
  second.wait(done);
  await negate(between, out, second);
  assert.equal(await done.query(), false);
  await assert.rejects(done.synchronize({ timeout: 1 }), { code: 507047 });
  await assert.rejects(start.elapsedTime(done), { code: 107006, reason: "NOT_READY" });
  await bench.do("wait_held");
  await bench.do("release");
  await second.synchronize();
  assert.equal((await out.read())[LARGE - 1], 3);
  assert.equal(await done.query(), true);
  assert.ok((await start.elapsedTime(done)) > 0);
  assert.ok((await done.elapsedTime(start)) < 0);
  done.destroy();
  done.destroy();
  await first.close();
  await second.close();
});

test("a failure that nobody waited for is told once, by whoever waits next", async () => {
  const [x, out] = await pair(1);
  await bench.do("fail", { where: "run", reason: "OUT_OF_MEMORY" });
  await negate(x, out);
  await assert.rejects(out.read(), { code: 207001, message: /a planted OUT_OF_MEMORY/ });
  await negate(x, out);
  assert.equal((await out.read())[0], -1);
});

test("leaving a block tells what nobody has waited for", async () => {
  const run = async (): Promise<void> => {
    const own = await connect(bench.address);
    try {
      own.malloc(2 ** 50);
    } finally {
      await own[Symbol.asyncDispose]();
    }
  };
  await assert.rejects(run, {
    reason: /OUT_OF_MEMORY|INVALID_PARAMETER/,
    message: /^malloc, earlier/,
  });
  assert.equal(await bench.do("contexts"), 1);
});

test("a stream that is destroyed drops its work; the default stream cannot be", async () => {
  const stream = await context.createStream();
  const [x, out] = await pair(1);
  await bench.do("hold");
  await negate(x, out, stream);
  await negate(x, out, stream);
  await bench.do("wait_held");
  const destroying = stream.destroy();
  await bench.do("release");
  await destroying;
  await stream.destroy();
  await assert.rejects(stream.synchronize(), { reason: /HANDLE_NOT_FOUND|STREAM_DESTROYED/ });
  await assert.rejects(context.defaultStream.destroy(), { code: 107006 });
});

test("many calls under way do not take more memory than allowed", async () => {
  const x = await context.tensor(Float32Array.of(1));
  const [, executor] = await ops.aclnnAddsGetWorkspaceSize(x, 1, 1, x, { repeatable: true });
  const { submitter } = context.commands;
  for (let turn = 0; turn < 5_000; turn++) {
    await executor.run();
    assert.equal(submitter.congestion, undefined);
  }
  assert.deepEqual([...(await x.read())], [5_001]);
});

test("everything fails when the context is closed", async () => {
  const [x, out] = await pair(1);
  await bench.do("hold");
  await negate(x, out);
  await negate(x, out);
  const waiting = assert.rejects(context.synchronize(), {
    reason: /HANDLE_NOT_FOUND|STREAM_DESTROYED/,
  });
  await bench.do("wait_held");
  const closing = context.close();
  while ((await bench.do<number>("contexts")) > 0);
  await bench.do("release");
  await closing;
  await waiting;
  assert.equal(context.closed, true);
  await assert.rejects(context.usage(), { code: 107017, message: "the context is closed" });
  assert.throws(() => context.malloc(1), { code: 107017 });
  out.free();
  await context.close();
});
