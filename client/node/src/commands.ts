/** What the objects of a context send their commands through. */

import { type AclnnError, again, WaitTimeoutError } from "./errors.js";
import {
  DestroyEventRequest,
  DestroyStreamRequest,
  FreeRequest,
  SynchronizeStreamRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import { DestroyExecutorRequest } from "./generated/messages/aclnn/v1/operator_service.js";
import {
  type AnswerOf,
  CONTEXT,
  command,
  Failures,
  type Name,
  type Pending,
  type RequestOf,
} from "./pending.js";
import type { Submitter, WaitOptions } from "./submit.js";

/** Bytes of one chunk of a large transfer. */
const CHUNK_BYTES = 2 ** 20;

/** An object on the server that can be ended without waiting. */
export type Ended =
  | { readonly kind: "buffer" | "event" | "executor"; readonly id: bigint }
  | { readonly kind: "stream"; readonly id: string };

/** How an answer is waited for. */
export interface AnswerOptions extends WaitOptions {
  /** Failures kept for these places are told here, even if the command itself did not fail. */
  places?: readonly string[];
  /** Place to keep the command's failure for, where the wait is broken off before it comes. */
  keepAt?: string | undefined;
}

/** Sends commands, waits for those that must be waited for, and keeps failures of the others. */
export class Commands {
  readonly failures = new Failures();
  /** Bytes of a chunk. */
  readonly chunkBytes: number;
  /** Bytes of arrays up to which a call carries them itself. */
  readonly inlineBytes: number;
  private lastId = 0n;
  private abandoned: Ended[] = [];

  /**
   * Wraps an engine.
   *
   * @param submitter the engine.
   * @param messageBytes the server's limit of one message; 0 where there is none.
   */
  constructor(
    readonly submitter: Submitter,
    messageBytes: number,
  ) {
    this.chunkBytes = messageBytes ? Math.min(CHUNK_BYTES, messageBytes - 4096) : CHUNK_BYTES;
    this.inlineBytes = this.chunkBytes / 2;
  }

  /** An id for a buffer, an executor or an event, unique in the context. */
  nextId(): bigint {
    this.lastId += 1n;
    return this.lastId;
  }

  // --- sending ----------------------------------------------------------------------------------

  /** Sends commands, together and in order; see {@link Submitter.submit}. */
  submit(commands: readonly Pending[], hold = false): void {
    this.submitter.submit(
      this.abandoned.length > 0 ? [...this.clearing(), ...commands] : commands,
      hold,
    );
  }

  /** Sends a command whose answer nobody waits for; its failure is kept for `place`. */
  post<N extends Name>(name: N, request: RequestOf<N>, place = CONTEXT, hold = false): void {
    this.submit([this.posted(name, request, place)], hold);
  }

  /** Prepares what {@link post} sends. */
  posted<N extends Name>(name: N, request: RequestOf<N>, place = CONTEXT): Pending<AnswerOf<N>> {
    return command(name, request, { onError: this.keeping(name, place) });
  }

  /** What keeps the failure of a command that nobody waits for. */
  keeping(name: Name, place = CONTEXT): (error: AclnnError) => void {
    return (error) => {
      // It is told later, by a call that has nothing to do with it.
      if (!error.operator) error.message = `${inC(name)}, earlier: ${error.message}`;
      this.failures.keep(place, error);
    };
  }

  /** Waits while too much is under way. */
  async room(options?: WaitOptions): Promise<void> {
    let crowd = this.submitter.congestion;
    while (crowd !== undefined) {
      await this.submitter.wait(crowd, options);
      crowd = this.submitter.congestion;
    }
  }

  /** Ends an object, without waiting; without effect in a closed context, where it has ended. */
  end(object: Ended): void {
    this.abandon(object);
    if (!this.submitter.closed) this.submit([]);
  }

  // --- waiting ----------------------------------------------------------------------------------

  /** Sends a command and waits for its answer; see {@link answer}. */
  ask<A>(pending: Pending<A>, options?: AnswerOptions): Promise<A> {
    this.submit([pending]);
    return this.answer(pending, options);
  }

  /**
   * Waits for the answer to a command.
   *
   * @throws AclnnError: the first failure: one that was kept, else the command's own.
   */
  async answer<A>(pending: Pending<A>, options: AnswerOptions = {}): Promise<A> {
    const { places = [], keepAt } = options;
    try {
      await this.submitter.wait(pending, options);
    } catch (reason) {
      if (keepAt !== undefined) this.giveUp(pending, keepAt);
      throw reason;
    }
    if (pending.error !== undefined && !pending.toldElsewhere) {
      throw again(this.failures.take(CONTEXT, ...places) ?? pending.error);
    }
    const failure = this.failures.take(...places);
    if (failure !== undefined) throw again(failure);
    return pending.answer;
  }

  /** Lets the failure of a command that is still under way be told to somebody else. */
  private giveUp(pending: Pending, place: string): void {
    pending.whenDone(() => {
      if (pending.error !== undefined && !(pending.error instanceof WaitTimeoutError)) {
        this.failures.keep(place, pending.error);
      }
    });
  }

  // --- what was abandoned -----------------------------------------------------------------------

  /** Notes an object that nobody refers to any more; the next command tells the server. */
  abandon(object: Ended): void {
    this.abandoned.push(object);
  }

  private clearing(): Pending[] {
    const abandoned = this.abandoned;
    this.abandoned = [];
    return abandoned.flatMap((object) => this.ending(object));
  }

  private ending(object: Ended): Pending[] {
    // What was abandoned may have ended before.
    const ignored = { onError: () => {} };
    switch (object.kind) {
      case "buffer":
        return [command("free", FreeRequest.create({ bufferId: object.id }), ignored)];
      case "event":
        return [
          command("destroyEvent", DestroyEventRequest.create({ eventId: object.id }), ignored),
        ];
      case "executor":
        return [
          command(
            "destroyExecutor",
            DestroyExecutorRequest.create({ executorId: object.id }),
            ignored,
          ),
        ];
      case "stream": {
        // To destroy a stream drops its work, which others may be waiting for.
        const waiting = SynchronizeStreamRequest.create({ streamId: object.id });
        const ending = DestroyStreamRequest.create({ streamId: object.id });
        return [
          this.posted("synchronizeStream", waiting),
          command("destroyStream", ending, ignored),
        ];
      }
    }
  }
}

/** The name of a command as the protocol writes it. */
function inC(name: Name): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
