/** Who may call, and what is trusted: TLS and tokens. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import test, { after, before } from "node:test";
import { connect } from "../src/index.js";
import { PROJECT, type Program, serve } from "./bench.js";

const FOLDER = `${PROJECT}tests/client/certificates/`;
const TOKEN = "a-token-of-twenty-characters-and-more";
const rootCertificates = `${FOLDER}server.pem`;
const folder = mkdtempSync(`${tmpdir()}/aclnn-`);
let program: Program;
let address: string;

before(async () => {
  writeFileSync(`${folder}/tokens.toml`, `[alice]\ntoken = "${TOKEN}"\n`, { mode: 0o600 });
  const tls = ["--tls-certificate", rootCertificates, "--tls-key", `${FOLDER}server.key`];
  const [started, listening] = await serve(...tls, "--tokens", `${folder}/tokens.toml`);
  program = started;
  address = listening.replace("127.0.0.1", "localhost");
});

after(async () => {
  await program.stop();
  rmSync(folder, { recursive: true });
});

test("a server that is trusted, and a token that is good", async () => {
  for (const roots of [rootCertificates, readFileSync(rootCertificates)]) {
    const context = await connect(address, { token: TOKEN, tls: { rootCertificates: roots } });
    assert.deepEqual([...(await context.ops.neg(Float32Array.of(2))).data], [-2]);
    assert.equal((await context.info()).usage.contexts, 1);
    await context.close();
  }
  const numbers = address.replace("localhost", "127.0.0.1");
  const named = { rootCertificates, serverName: "localhost" };
  await (await connect(numbers, { token: TOKEN, tls: named })).close();
});

test("tokens that are missing or wrong", async () => {
  const refused = { code: 207006, reason: "UNAUTHENTICATED" };
  await assert.rejects(connect(address, { tls: { rootCertificates } }), refused);
  await assert.rejects(
    connect(address, { token: `${TOKEN}x`, tls: { rootCertificates } }),
    refused,
  );
});

test("servers that are not trusted, or not who they say", async () => {
  const cases: [object, RegExp][] = [
    [{ tls: true }, /the server's certificate is not trusted/],
    [
      { tls: { rootCertificates: `${FOLDER}other.pem` } },
      /the server's certificate is not trusted/,
    ],
    [
      { tls: { rootCertificates, serverName: "elsewhere" } },
      /the server's certificate is of another host/,
    ],
  ];
  for (const [options, message] of cases) {
    await assert.rejects(connect(address, options), { code: 507901, message });
  }
  await assert.rejects(connect(address), { code: 507901, message: /may speak TLS/ });
});

test("a token does not leave this machine in the clear, unless it is said to", async () => {
  await assert.rejects(connect("npu.example:50051", { token: TOKEN }), {
    code: 161002,
    parameter: "token",
    message: /without TLS/,
  });
});
