/** Connecting, and what fails before there is a context: every reason that the server may tell. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import test, { after, before } from "node:test";
import { Connection } from "../src/connection.js";
import * as classes from "../src/generated/errors.js";
import { AclnnError, connect, serverInfo } from "../src/index.js";
import { Bench, PROJECT, type Program, serve } from "./bench.js";

let bench: Bench;
let program: Program;
let address: string;

before(async () => {
  bench = await Bench.start();
  [program, address] = await serve();
});

after(async () => {
  await bench.stop();
  await program.stop();
});

test("every reason comes back as its class, from a status and from an answer", async () => {
  for (const kind of Object.values(classes)) {
    const whole = (error: unknown): boolean => {
      assert.ok(error instanceof kind, `${kind.reason}: ${error}`);
      assert.equal(error.code, kind.defaultCode);
      assert.equal(error.reason, kind.reason);
      if (kind.reason === "INTERNAL") {
        assert.match(error.requestId, /\w/);
        assert.doesNotMatch(error.message, /secret/);
      } else {
        assert.match(error.message, new RegExp(`a planted ${kind.reason} grüße`));
        assert.equal(error.parameter, "planted");
      }
      return true;
    };
    await bench.do("fail", { where: "open", reason: kind.reason });
    await assert.rejects(connect(bench.address), whole);

    const context = await connect(bench.address);
    await bench.do("fail", { where: "plan", reason: kind.reason });
    await assert.rejects(context.ops.neg(Float32Array.of(1)), whole);
    assert.deepEqual([...(await context.ops.neg(Float32Array.of(1))).data], [-1]);
    await context.close();
  }
});

test("a reason of a later version keeps its code and text", async () => {
  await bench.do("fail", { where: "open", reason: "FROM_THE_FUTURE" });
  await assert.rejects(connect(bench.address), (error: AclnnError) => {
    assert.equal(error.constructor, AclnnError);
    assert.equal(error.code, 999999);
    assert.equal(error.name, "UNKNOWN");
    assert.match(error.message, /a planted FROM_THE_FUTURE/);
    return true;
  });
});

test("a server that speaks another version of the protocol", async () => {
  const other = await Bench.start();
  await other.do("speak", { version: 7 });
  await assert.rejects(connect(other.address), {
    reason: "VERSION_MISMATCH",
    message: /protocol_version is 1/,
  });
  await other.stop();
});

test("nobody listens, no such host, something else listens", async () => {
  const door = createServer((socket) => {
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n", () => socket.destroy());
  });
  await new Promise<void>((resolve) => door.listen(0, "127.0.0.1", resolve));
  const { port } = door.address() as { port: number };
  await assert.rejects(connect(`127.0.0.1:${port}`, { timeout: 2_000 }), { code: 507901 });
  await new Promise((resolve) => door.close(resolve));
  await assert.rejects(connect(`127.0.0.1:${port}`), {
    message: /connection refused; nothing listens there/,
  });
  await assert.rejects(connect("unix:/nowhere/aclnn.sock"), { message: /there is no such socket/ });
});

test("a server that takes connections and says nothing", async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => sockets.push(socket));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { port: number };
  await assert.rejects(connect(`127.0.0.1:${port}`, { timeout: 100 }), {
    code: 507901,
    message: /no answer within 0.1 seconds while opening a context/,
  });
  const reason = new Error("enough");
  await assert.rejects(
    connect(`127.0.0.1:${port}`, { signal: AbortSignal.abort(reason) }),
    (e) => e === reason,
  );
  const abort = new AbortController();
  setImmediate(() => abort.abort(reason));
  await assert.rejects(connect(`127.0.0.1:${port}`, { signal: abort.signal }), (e) => e === reason);
  silent.close();
  for (const socket of sockets) socket.destroy();
});

test("arguments that cannot be", async () => {
  const pem = readFileSync(`${PROJECT}tests/client/certificates/server.pem`);
  const cases: [object, string][] = [
    [{ token: "" }, "token"],
    [{ token: "a b" }, "token"],
    [{ timeout: 0 }, "timeout"],
    [{ timeout: Number.NaN }, "timeout"],
    [{ tls: { certificate: pem } }, "tls"],
    [{ tls: { rootCertificates: "/nowhere.pem" } }, "tls.rootCertificates"],
    [{ device: -1 }, "device"],
    [{ device: 0.5 }, "device"],
  ];
  for (const [options, parameter] of cases) {
    await assert.rejects(connect(address, options), { code: 161002, parameter });
  }
  await assert.rejects(connect("nix"), { code: 161002, parameter: "address" });
});

test("devices, limits, and what the server is", async () => {
  await assert.rejects(connect(address, { device: 7 }), {
    code: 107001,
    reason: "HANDLE_NOT_FOUND",
  });
  const context = await connect(address, { device: 0, token: "unasked" });
  assert.equal(context.device, 0);
  assert.ok(context.limits.messageBytes > 0);
  const info = await serverInfo(address);
  assert.deepEqual(info.protocol, [1, 1]);
  assert.equal(info.backend, "numpy");
  assert.equal(info.devices[0]!.contextCount, 1);
  assert.equal((await context.info()).epoch, info.epoch);
  const [operator] = await context.operators("aclnnSmoothL1LossBackward");
  assert.deepEqual(operator!.oneLine?.inputs, ["gradOutput", "self", "target"]);
  await assert.rejects(context.operator("aclnnNix"), { code: 100024 });
  await context.close();
});

test("over a socket file", async () => {
  const path = `unix:/tmp/aclnn-node-${process.pid}.sock`;
  const [own, listening] = await serve("--listen", path);
  const context = await connect(listening);
  assert.deepEqual([...(await context.ops.neg(Int32Array.of(5))).data], [-5]);
  await context.close();
  await own.stop();
});

test("a connection that is taken and stays silent is given up, and another one is made", async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => sockets.push(socket));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { port: number };
  const connection = new Connection(`127.0.0.1:${port}`, {}, 50);
  for (let turn = 0; turn < 2; turn++) {
    const taken = once(silent, "connection");
    const error = await new Promise<AclnnError>((ended) => {
      const response = () => assert.fail("a response");
      connection.openSubmit({ response, drained: () => {}, ended }).send(new Uint8Array(1));
    });
    assert.equal(error.message, "no connection within 0.05 seconds");
    await taken;
  }
  connection.close();
  silent.close();
  for (const socket of sockets) socket.destroy();
});
