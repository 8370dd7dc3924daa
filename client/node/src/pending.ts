/** Commands under way, and the failures of those that nobody waits for. */

import { type AclnnError, InternalError, rebuilt } from "./errors.js";
import type { Command, Result } from "./generated/messages/aclnn/v1/device_service.js";
import { commandParts, type Parts, sizeOf } from "./wire.js";

type Commands = NonNullable<Command["command"]>;
type Results = NonNullable<Result["result"]>;

/** Name of a command. */
export type Name = Commands["$case"];
/** The request of a command. */
export type RequestOf<N extends Name> = Extract<Commands, { $case: N }>["value"];
/** What a command answers. */
export type AnswerOf<N extends Name> = Extract<Results, { $case: N }>["value"];

/** How a command is followed up. */
export interface PendingOptions {
  /** Where the data of a read is to be put; of the same length. */
  into?: Uint8Array;
  /** Size that the answer will about have. */
  answerBytes?: number;
  /** Told of the failure in place of who waits. */
  onError?: (error: AclnnError) => void;
  /** Milliseconds that the command may take in addition to the usual time limit. */
  patience?: number;
}

/** One command, and later what it answers. */
export class Pending<A = unknown> {
  /** Bytes of the command, or of its answer, whichever are more. */
  readonly weight: number;
  /** Milliseconds that it may take in addition to the usual time limit. */
  readonly patience: number;
  /** Whether it was answered, or never will be. */
  done = false;
  /** What it failed with. */
  error: AclnnError | undefined;
  /** Whether its failure is told in place of who waits. */
  readonly toldElsewhere: boolean;

  private parts: Parts;
  private answered: A | undefined;
  private into: Uint8Array | undefined;
  private readonly onError: ((error: AclnnError) => void) | undefined;
  private callbacks: (() => void)[] = [];

  constructor(parts: Parts, options: PendingOptions = {}) {
    this.parts = parts;
    this.into = options.into;
    this.onError = options.onError;
    this.toldElsewhere = options.onError !== undefined;
    this.patience = options.patience ?? 0;
    this.weight = Math.max(sizeOf(parts), options.answerBytes ?? 0, options.into?.length ?? 0);
  }

  /** What it answered; it must be done, and not have failed. */
  get answer(): A {
    return this.answered as A;
  }

  /** Calls back once it is done; at once where it is. */
  whenDone(callback: () => void): void {
    if (this.done) callback();
    else this.callbacks.push(callback);
  }

  /** Whether it still refers to its caller's data. */
  get unsent(): boolean {
    return this.parts.length > 0;
  }

  /** Gives the encoded command away, to be sent. */
  takeParts(): Parts {
    const parts = this.parts;
    this.parts = [];
    return parts;
  }

  /** Takes the result, without telling anyone yet. */
  read(message: Result): void {
    const { result } = message;
    if (result === undefined) this.error = new InternalError("the server's answer is empty");
    else if (result.$case === "error") this.error = told(result.value);
    else if (this.into === undefined) this.answered = result.value as A;
    else if (result.$case !== "readBuffer" || result.value.data.length !== this.into.length) {
      this.error = new InternalError(`asked for ${this.into.length} bytes, and got others`);
    } else this.into.set(result.value.data);
  }

  /** Tells everyone that it is done. */
  finish(error?: AclnnError): void {
    this.done = true;
    this.error ??= error;
    this.parts = [];
    this.into = undefined;
    if (this.error !== undefined) this.onError?.(this.error);
    const callbacks = this.callbacks;
    this.callbacks = [];
    for (const callback of callbacks) callback();
  }
}

/** Prepares a command. */
export function command<N extends Name>(
  name: N,
  request: RequestOf<N>,
  options: PendingOptions = {},
): Pending<AnswerOf<N>> {
  return new Pending(commandParts({ $case: name, value: request } as unknown as Commands), options);
}

function told(error: Extract<Results, { $case: "error" }>["value"]): AclnnError {
  const { reason, message, operator, parameter, requestId } = error;
  const retryAfterMs = Number(error.retryAfterMs);
  return rebuilt({
    reason,
    message,
    operator,
    parameter,
    requestId,
    retryAfterMs,
    code: error.aclCode,
  });
}

/** Place of failures that belong to no stream. */
export const CONTEXT = "";
/** Every place there is. */
export const EVERYWHERE = "*";

/**
 * Failures of commands that nobody waited for, until somebody can be told.
 *
 * Each belongs to a place: the id of a stream, or CONTEXT.
 */
export class Failures {
  private readonly kept = new Map<string, AclnnError>();

  /** Keeps a failure, unless the place has one: the later ones follow from the first. */
  keep(place: string, error: AclnnError): void {
    if (!this.kept.has(place)) this.kept.set(place, error);
  }

  /** Whether there is none. */
  get isEmpty(): boolean {
    return this.kept.size === 0;
  }

  /** Takes the failures of some places, and gives the first. */
  take(...places: readonly string[]): AclnnError | undefined {
    let first: AclnnError | undefined;
    for (const [place, error] of this.kept) {
      if (!places.includes(place) && !places.includes(EVERYWHERE)) continue;
      first ??= error;
      this.kept.delete(place);
    }
    return first;
  }
}
