/** The engine, over a call in the test's hand. */

import assert from "node:assert/strict";
import test from "node:test";
import {
  FreeRequest,
  FreeResponse,
  type Result,
  SubmitRequest,
  SubmitResponse,
} from "../src/generated/messages/aclnn/v1/device_service.js";
import { command, type Pending } from "../src/pending.js";
import type { CallEvents } from "../src/requests.js";
import { Submitter } from "../src/submit.js";

function begin(timeout?: number) {
  const sent: SubmitRequest[] = [];
  let events: CallEvents | undefined;
  const submitter = new Submitter(
    (told) => {
      events = told;
      return { send: (message) => sent.push(SubmitRequest.decode(message)) > 0, cancel: () => {} };
    },
    "the-context",
    { timeout },
  );
  const answer = (sequence: bigint, results: Result["result"][]): void => {
    const message = { sequence, results: results.map((result) => ({ result })) };
    events!.response(SubmitResponse.encode(SubmitResponse.create(message)).finish());
  };
  return { submitter, sent, answer };
}

const free = (id: number): Pending => command("free", FreeRequest.create({ bufferId: BigInt(id) }));
const DONE = { $case: "free", value: FreeResponse.create() } as const;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("what is submitted before the program waits goes in one request", async () => {
  const { submitter, sent } = begin();
  submitter.submit([free(1)], true); // held
  await turn();
  assert.equal(sent.length, 0);
  submitter.submit([free(2), free(3)]);
  submitter.submit([free(4)]);
  await turn();
  assert.equal(sent.length, 1);
  const ids = sent[0]!.commands.map(
    ({ command }) => command?.$case === "free" && command.value.bufferId,
  );
  assert.deepEqual(ids, [1n, 2n, 3n, 4n]);
});

test("a wait sends at once, and gets its own answer", async () => {
  const { submitter, sent, answer } = begin();
  const [first, second] = [free(1), free(2)];
  submitter.submit([first, second]);
  const waiting = submitter.wait(second);
  await Promise.resolve();
  assert.equal(sent.length, 1);
  const error = { reason: "NOT_READY", aclCode: 107006, message: "not yet", statusCode: 9 };
  const rest = { operator: "", parameter: "", requestId: "", retryAfterMs: 0n };
  answer(1n, [DONE, { $case: "error", value: { ...error, ...rest } }]);
  await waiting;
  assert.equal(first.error, undefined);
  assert.equal(second.error?.message, "not yet");
  assert.equal(submitter.settled, true);
});

test("a wait ends with the time limit, which a command's own patience extends", async () => {
  const { submitter } = begin(1);
  const pending = free(1);
  submitter.submit([pending]);
  await assert.rejects(submitter.wait(pending), {
    code: 507901,
    message: "no answer within 0.001 seconds",
  });
  assert.equal(pending.done, false);
});

test("too much under way is told", () => {
  const { submitter } = begin();
  for (let count = 0; count < 4096; count++) submitter.submit([free(count)]);
  assert.equal(submitter.congestion, undefined);
  submitter.submit([free(0)]);
  assert.notEqual(submitter.congestion, undefined);
});

test("a request has about a chunk of bytes at most", async () => {
  const { submitter, sent } = begin();
  const read = (): Pending => command("free", FreeRequest.create(), { answerBytes: 600_000 });
  submitter.submit([read(), read(), free(1), read()]);
  await turn();
  assert.deepEqual(
    sent.map(({ commands }) => commands.length),
    [1, 2, 1],
  );
});

test("closing fails what is under way, and what comes", async () => {
  const { submitter } = begin();
  const pending = free(1);
  submitter.submit([pending]);
  const waiting = submitter.wait(pending);
  submitter.close();
  await waiting;
  assert.equal(pending.error?.message, "the context is closed");
  assert.throws(() => submitter.submit([free(2)]), { code: 107017 });
});
