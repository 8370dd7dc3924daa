/** The engine: commands go out in order over one open Submit call, and their results come back in order. */

import { type AclnnError, again, HandleNotFoundError, ServerUnavailable } from "./errors.js";
import type { Result } from "./generated/messages/aclnn/v1/device_service.js";
import type { Pending } from "./pending.js";
import { type CallEvents, Requests, type SubmitCall } from "./requests.js";

/** Commands that may be under way before the one who submits more waits for some. */
const MAX_OUTSTANDING = 4096;
/** Bytes of them, requests or answers, whichever are more. */
const MAX_OUTSTANDING_BYTES = 64 * 2 ** 20;
/** Bytes of one request, or of its answer, that no further command may exceed: a chunk and small ones. */
const REQUEST_BYTES = 2 ** 20 + 2 ** 16;

/** How long a wait may go on. */
export interface WaitOptions {
  /** Ends the wait early, with the signal's reason; what is waited for goes on. */
  signal?: AbortSignal | undefined;
}

/** Settings of the engine. */
export interface SubmitterOptions {
  /** Milliseconds that a result may take. */
  timeout?: number | undefined;
  /** Milliseconds for which to try to reach a server again whose connection broke. */
  resumeMs?: number | undefined;
  /** Completes the error that the call ended with. */
  explain?: (error: AclnnError) => AclnnError;
}

/** Sends the commands of one context. */
export class Submitter {
  /** Requests, of one or more commands each, that were sent. */
  requestsSent = 0;
  private readonly requests: Requests;
  private broken: AclnnError | undefined;
  private outbox: Pending[] = [];
  private awaiting: Pending[] = [];
  private outstandingBytes = 0;
  private scheduled: "no" | "soon" | "next" = "no";

  /** Opens nothing yet; the first command does. */
  constructor(
    openCall: (events: CallEvents) => SubmitCall,
    contextId: string,
    private readonly options: SubmitterOptions = {},
  ) {
    const explain = options.explain ?? ((error) => error);
    this.requests = new Requests(
      openCall,
      contextId,
      {
        answered: (results) => this.take(results),
        ready: () => this.flush(),
        over: (error) => this.break(explain(error)),
      },
      options.resumeMs,
    );
  }

  /** Whether nothing can be submitted any more. */
  get closed(): boolean {
    return this.broken !== undefined;
  }

  /** Whether every command has been answered. */
  get settled(): boolean {
    return this.awaiting.length + this.outbox.length === 0;
  }

  /**
   * Sends commands, in order, together with all else that is submitted before the program waits.
   *
   * @param commands in order.
   * @param hold whether they can go with whatever is submitted next, because nothing happens before.
   * @throws AclnnError: the context is closed, or the server is gone.
   */
  submit(commands: readonly Pending[], hold = false): void {
    if (this.broken !== undefined) throw again(this.broken);
    for (const pending of commands) this.outstandingBytes += pending.weight;
    this.outbox.push(...commands);
    if (!hold) this.schedule("soon");
  }

  /** The command to wait for before more is submitted, where too much is under way. */
  get congestion(): Pending | undefined {
    const count = this.awaiting.length + this.outbox.length;
    if (count <= MAX_OUTSTANDING && this.outstandingBytes <= MAX_OUTSTANDING_BYTES)
      return undefined;
    const underWay = this.awaiting.length > 0 ? this.awaiting : this.outbox;
    return underWay[underWay.length >> 1];
  }

  /**
   * Waits until a command is done.
   *
   * @throws ServerUnavailable: it took longer than the time limit.
   * @throws the reason of the signal, where it ended the wait.
   */
  wait(pending: Pending, { signal }: WaitOptions = {}): Promise<void> {
    if (pending.done) return Promise.resolve();
    this.schedule("next");
    return new Promise((resolve, reject) => {
      const limit = this.options.timeout;
      const timer =
        limit === undefined
          ? undefined
          : setTimeout(() => end(late(limit)), limit + pending.patience);
      const abort = (): void => end(signal?.reason);
      const end = (reason?: unknown): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        if (pending.done) resolve();
        else reject(reason);
      };
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      pending.whenDone(end);
    });
  }

  /** Ends the call; everything that is under way fails. */
  close(): void {
    this.requests.cancel(new HandleNotFoundError("the context is closed"));
  }

  /** Sends what is submitted: soon, with what comes until the event loop's next turn, or next. */
  private schedule(when: "soon" | "next"): void {
    if (this.scheduled === "next" || this.scheduled === when) return;
    this.scheduled = when;
    if (when === "next") queueMicrotask(() => this.flush());
    else setImmediate(() => this.flush());
  }

  private flush(): void {
    this.scheduled = "no";
    while (this.outbox.length > 0 && this.broken === undefined && this.requests.isReady) {
      let weight = this.outbox[0]!.weight;
      let count = 1;
      for (; count < this.outbox.length; count++) {
        weight += this.outbox[count]!.weight;
        if (weight > REQUEST_BYTES) break;
      }
      const sent = this.outbox.splice(0, count);
      this.awaiting.push(...sent);
      this.requestsSent += 1;
      this.requests.send(
        sent.flatMap((pending) => pending.takeParts()),
        count,
      );
    }
  }

  private take(results: readonly Result[]): void {
    const answered = this.awaiting.splice(0, results.length);
    answered.forEach((pending, index) => {
      pending.read(results[index]!);
      this.outstandingBytes -= pending.weight;
    });
    for (const pending of answered) pending.finish();
    if (this.outbox.length > 0) this.schedule("next");
  }

  private break(error: AclnnError): void {
    this.broken = error;
    const underWay = [...this.awaiting, ...this.outbox];
    this.awaiting = [];
    this.outbox = [];
    this.outstandingBytes = 0;
    for (const pending of underWay) pending.finish(again(error));
  }
}

function late(limit: number): AclnnError {
  return new ServerUnavailable(`no answer within ${limit / 1000} seconds`);
}
