/** Numbered requests over calls that break, with calls in the test's hand. */

import assert from "node:assert/strict";
import test from "node:test";
import {
  FreeResponse,
  type Result,
  SubmitRequest,
  SubmitResponse,
} from "../src/generated/messages/aclnn/v1/device_service.js";
import { type AclnnError, HandleNotFoundError, ServerUnavailable } from "../src/index.js";
import { type CallEvents, EndedByServer, Requests } from "../src/requests.js";

/** A call that notes what is sent. */
class FakeCall {
  /** Whether the next message can be sent at once. */
  static room = true;
  readonly sent: SubmitRequest[] = [];
  cancelled = false;

  constructor(readonly events: CallEvents) {}

  send(message: Uint8Array): boolean {
    this.sent.push(SubmitRequest.decode(message));
    return FakeCall.room;
  }

  cancel(): void {
    this.cancelled = true;
  }

  /** Answers a request with so many results. */
  answer(sequence: bigint, count: number): void {
    const results: Result[] = new Array(count).fill({
      result: { $case: "free", value: FreeResponse.create() },
    });
    this.events.response(SubmitResponse.encode({ sequence, results }).finish());
  }

  /** Sequence and acknowledged of each request, and whether it names the context. */
  get seen(): [bigint, bigint, boolean][] {
    return this.sent.map((row) => [
      row.sequence,
      row.acknowledged,
      row.contextId === "the-context",
    ]);
  }
}

function begin(resumeMs?: number) {
  const calls: FakeCall[] = [];
  const told: string[] = [];
  const opened: (() => void)[] = [];
  let over: AclnnError | undefined;
  const requests = new Requests(
    (events) => {
      calls.push(new FakeCall(events));
      for (const tell of opened.splice(0)) setImmediate(tell);
      return calls.at(-1)!;
    },
    "the-context",
    {
      answered: (results) => told.push(`answered ${results.length}`),
      ready: () => told.push("ready"),
      over: (error) => {
        over = error;
        told.push("over");
      },
    },
    resumeMs,
  );
  /** The next call that is opened, when what follows its opening is done. */
  const next = async (): Promise<FakeCall> => {
    await new Promise<void>((resolve) => opened.push(resolve));
    return calls.at(-1)!;
  };
  return { requests, calls, told, next, over: () => over };
}

/** Longer than the first pause. */
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));
const broke = (): AclnnError => new ServerUnavailable("no answer: the connection broke");

test("requests are numbered from 1, the first names the context, answers are acknowledged", async () => {
  const { requests, calls, told } = begin();
  requests.send([], 2);
  requests.send([], 0);
  calls[0]!.answer(1n, 2);
  requests.send([], 1);
  assert.deepEqual(calls[0]!.seen, [
    [1n, 0n, true],
    [2n, 0n, false],
    [3n, 1n, false],
  ]);
  assert.deepEqual(told, ["answered 2"]);
});

test("what is not answered is sent again, in order, with its numbers", async () => {
  const { requests, calls, told, next } = begin();
  for (let count = 0; count < 3; count++) requests.send([], 0);
  calls[0]!.answer(1n, 0);
  calls[0]!.events.ended(broke());
  assert.equal(requests.isReady, false);
  await next();
  assert.deepEqual(calls[1]!.seen, [
    [2n, 0n, true],
    [3n, 0n, false],
  ]);
  assert.equal(requests.isReady, true);
  calls[0]!.answer(2n, 0); // too late, of the call before
  calls[0]!.events.ended(broke());
  assert.deepEqual(told, ["answered 0", "ready"]);
  calls[1]!.answer(2n, 0);
  calls[1]!.answer(3n, 0);
  requests.send([], 0);
  assert.deepEqual(calls[1]!.seen.at(-1), [4n, 3n, false]);
});

test("sending again waits where there is no room", async () => {
  const { requests, calls, next } = begin();
  for (let count = 0; count < 3; count++) requests.send([], 0);
  FakeCall.room = false;
  calls[0]!.events.ended(broke());
  const call = await next();
  assert.deepEqual(call.seen.length, 1);
  assert.equal(requests.isReady, false);
  call.events.drained();
  assert.deepEqual(call.seen.length, 2);
  FakeCall.room = true;
  call.events.drained();
  assert.deepEqual(
    call.seen.map(([sequence]) => sequence),
    [1n, 2n, 3n],
  );
  assert.equal(requests.isReady, true);
});

test("a call that breaks while nothing is under way is opened again, unnumbered", async () => {
  const { requests, calls, told, next } = begin();
  requests.send([], 1);
  calls[0]!.answer(1n, 1);
  calls[0]!.events.ended(broke());
  await next();
  assert.deepEqual(calls[1]!.seen, [[0n, 0n, true]]);
  calls[1]!.events.ended(broke()); // before it was answered: not sent again
  await next();
  assert.deepEqual(calls[2]!.seen, [[0n, 0n, true]]);
  requests.send([], 1);
  calls[2]!.answer(0n, 0);
  calls[2]!.answer(2n, 1);
  assert.deepEqual(calls[2]!.seen, [
    [0n, 0n, true],
    [2n, 1n, false],
  ]);
  assert.deepEqual(told, ["answered 1", "ready", "ready", "answered 1"]);
});

test("a server that is gone is given up at once", async () => {
  const { requests, calls, over } = begin();
  requests.send([], 1);
  calls[0]!.events.ended(new ServerUnavailable("connection refused; nothing listens there"));
  assert.match(over()!.message, /nothing listens there/);
  assert.equal(calls.length, 1);
});

test("an end that the server chose is the end", async () => {
  for (const reason of [
    new EndedByServer("the server ended the call"),
    new HandleNotFoundError("no such context"),
  ]) {
    const { requests, calls, over } = begin();
    requests.send([], 1);
    calls[0]!.events.ended(reason);
    assert.equal(over(), reason);
  }
});

test("a server that cannot be reached is given up after a while", async () => {
  const { requests, calls, over } = begin(0);
  requests.send([], 1);
  calls[0]!.events.ended(broke());
  assert.equal(over()?.message, "no answer: the connection broke");
  await pause();
  assert.equal(calls.length, 1);
});

test("answers that do not fit end it", async () => {
  for (const [sequence, count] of [
    [2n, 1],
    [1n, 2],
    [0n, 1],
  ] as const) {
    const { requests, calls, over } = begin();
    requests.send([], 1);
    calls[0]!.answer(sequence, count);
    assert.match(over()!.message, /answers do not fit what was asked/);
    assert.equal(calls[0]!.cancelled, true);
  }
  const { requests, calls, over } = begin();
  requests.send([], 1);
  calls[0]!.events.response(Uint8Array.of(0xff, 0xff));
  assert.equal(over()!.code, 561000);
});

test("closing tells that the context is closed, and opens nothing", async () => {
  const { requests, calls, over } = begin();
  requests.send([], 1);
  calls[0]!.events.ended(broke());
  requests.cancel();
  await pause();
  assert.equal(over()!.message, "the context is closed");
  assert.equal(calls.length, 1);
  assert.equal(requests.isReady, false);
});
