/** Connections that break: the context goes on, and every command is applied exactly once. */

import assert from "node:assert/strict";
import test, { after, afterEach, before, beforeEach } from "node:test";
import { type Context, connect, ops, type Tensor } from "../src/index.js";
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
  await bench.do("unblock");
  await bench.do("cut_after"); // none any more
  await context.close();
});

/** Queues kernels that make a number 10 times itself and a digit: each time that one runs shows. */
async function append(number: Tensor, digit: number): Promise<void> {
  const [, times] = await ops.aclnnMulsGetWorkspaceSize(number, 10n, number);
  await times.run();
  const [, plus] = await ops.aclnnAddsGetWorkspaceSize(number, BigInt(digit), 1n, number);
  await plus.run();
}

const value = async (number: Tensor): Promise<bigint> => (await number.read())[0] as bigint;

test("a connection that breaks between calls is not noticed", async () => {
  const number = await context.tensor(BigInt64Array.of(0n));
  for (let digit = 1; digit <= 5; digit++) {
    await append(number, digit);
    assert.equal(await value(number), BigInt("12345".slice(0, digit)));
    await bench.do("cut");
  }
  assert.equal((await context.usage()).buffers, 1);
});

test("a break at any byte applies everything once", async () => {
  for (const way of ["up", "down"]) {
    for (const bytes of [0, 9, 30, 100, 400]) {
      const number = await context.tensor(BigInt64Array.of(0n));
      await append(number, 1);
      await context.synchronize();
      const ran = (await bench.do<string[]>("runs")).length;
      await bench.do("cut_after", { [way]: bytes });
      for (const digit of [2, 3, 4]) await append(number, digit);
      assert.equal(await value(number), 1234n, `${way} ${bytes}`);
      assert.equal((await bench.do<string[]>("runs")).length - ran, 6);
      number.free();
    }
  }
});

test("a wait goes on over the next connection", async () => {
  const x = await context.tensor(new Float32Array(300_000).fill(1));
  const out = context.empty([300_000], "FLOAT");
  await bench.do("hold");
  const [, executor] = await ops.aclnnNegGetWorkspaceSize(x, out);
  await executor.run();
  const reading = out.read();
  await bench.do("wait_held");
  for (let turn = 0; turn < 3; turn++) await bench.do("cut");
  await bench.do("release");
  assert.equal((await reading)[299_999], -1);
  assert.equal((await bench.do<string[]>("runs")).filter((name) => name === "aclnnNeg").length, 1);
});

test("large transfers survive", async () => {
  const data = new Uint8Array(6 * 2 ** 20).map((_, index) => (index * 7919) >> 5);
  for (const way of ["up", "down"]) {
    for (const bytes of [100, 3 * 2 ** 20]) {
      await bench.do("cut_after", { [way]: bytes });
      const tensor = await context.tensor(data);
      assert.equal(Buffer.compare((await tensor.read()) as Uint8Array, data), 0);
      tensor.free();
    }
  }
});

test("questions are asked again", async () => {
  for (const bytes of [0, 30, 100]) {
    await bench.do("cut_after", { down: bytes });
    assert.equal((await context.info()).backend, "numpy");
    await bench.do("cut_after", { down: bytes });
    assert.equal((await context.operator("aclnnNeg")).parameters.length, 2);
  }
});

test("an idle context is kept alive over a new connection", async () => {
  const tensor = await context.tensor(Float32Array.of(1));
  await tensor.read();
  const connections = await bench.do<number>("connections");
  await bench.do("cut");
  while ((await bench.do<number>("connections")) === connections);
  assert.deepEqual([...(await tensor.read())], [1]);
});

test("a context whose lease ended meanwhile is gone", async () => {
  const tensor = await context.tensor(Float32Array.of(1));
  await tensor.read();
  await bench.do("block");
  const reading = assert.rejects(tensor.read(), { code: 107017, reason: "HANDLE_NOT_FOUND" });
  while ((await bench.do<number>("contexts")) > 0) await bench.do("end_leases");
  await bench.do("unblock");
  await reading;
  assert.equal(context.closed, true);
  await assert.rejects(tensor.read(), { code: 107017 });
});

test("a server that was started anew has lost the context", async () => {
  const tensor = await context.tensor(Float32Array.of(1));
  await tensor.read();
  await bench.do("restart");
  await assert.rejects(tensor.read(), { code: 507010, reason: "SESSION_LOST" });
  await assert.rejects(context.createStream(), { reason: "SESSION_LOST" });
});

test("closing does not wait for a server that cannot be reached", async () => {
  const tensor = await context.tensor(Float32Array.of(1));
  await tensor.read();
  await bench.do("block");
  const reading = assert.rejects(tensor.read(), { code: 107017 });
  context.commands.submitter.close();
  await reading;
});

// The last one: it ends the server.
test("a server that is gone is given up at once, and named", async () => {
  const tensor = await context.tensor(Float32Array.of(1));
  await tensor.read();
  await bench.do("stop_server");
  await assert.rejects(tensor.read(), (error: Error) => {
    assert.match(error.message, /nothing listens there/);
    assert.ok(error.message.startsWith(context.address));
    return true;
  });
  await assert.rejects(connect(context.address), {
    code: 507901,
    message: /nothing listens there/,
  });
});
