/**
 * The numbered requests of one context, over as many calls of Submit as it takes.
 *
 * A connection that breaks is no end: the call is opened again, and what has not been answered is sent
 * again. The server knows each request by its number and applies it once. Only when the server is gone, does
 * not answer for long, or has a reason of its own to end the call, is it over. A server that has no room for
 * one more call is asked again.
 */

import {
  type AclnnError,
  HandleNotFoundError,
  InternalError,
  LimitExceededError,
  ServerUnavailable,
} from "./errors.js";
import { type Result, SubmitResponse } from "./generated/messages/aclnn/v1/device_service.js";
import { introduction, joined, joinRequest, type Parts } from "./wire.js";

/** One open call of Submit. */
export interface SubmitCall {
  /** Sends a message; false where no other should be sent before the call is drained. */
  send(message: Uint8Array): boolean;
  /** Ends the call from this side. */
  cancel(): void;
}

/** What happens to a call, told by the one who opened it. */
export interface CallEvents {
  /** A response came. */
  response(message: Uint8Array): void;
  /** Other messages can be sent. */
  drained(): void;
  /** The call has ended. */
  ended(error: AclnnError): void;
}

/** What happens to the requests. */
export interface RequestEvents {
  /** The oldest request was answered. */
  answered(results: readonly Result[]): void;
  /** Another request can be sent. */
  ready(): void;
  /** All has ended. */
  over(error: AclnnError): void;
}

/** The server ended the call without giving a reason. */
export class EndedByServer extends ServerUnavailable {}

/** Milliseconds for which to try to reach the server again. */
export const RESUME_MS = 10_000;
/** Milliseconds between the first attempts to reach it; doubled after each. */
const PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** Part by which a pause may be longer, so that those who were refused together do not come back together. */
const JITTER = 0.25;
/** What gRPC's own refusal of one more call means, in the words of status.ts. */
const FULL = "as many calls in hand";
const NOBODY_THERE = ["nothing listens there", "there is no such socket"];
/** Number of a request that opens a call, has no commands, and is never sent again. */
const UNNUMBERED = 0n;

interface Sent {
  readonly number: bigint;
  readonly message: Uint8Array;
  readonly commands: number;
}

/** Sends requests, one after the other, and hands out their answers. */
export class Requests {
  private readonly head: Uint8Array;
  private call: SubmitCall | undefined;
  /** Counts the calls, so that what an old one tells is not taken for the new one's. */
  private calls = 0;
  private introduced = false;
  private draining = false;
  private number = 0n;
  private acknowledged = 0n;
  private unanswered: Sent[] = [];
  private resend: Sent[] = [];
  private attempts = 0;
  private brokenAt = 0;
  private retry: NodeJS.Timeout | undefined;
  private over: AclnnError | undefined;

  /**
   * Opens nothing yet.
   *
   * @param openCall opens Submit, without waiting.
   * @param contextId context of every command.
   * @param events told what happens.
   * @param resumeMs milliseconds for which to try to reach the server again.
   */
  constructor(
    private readonly openCall: (events: CallEvents) => SubmitCall,
    contextId: string,
    private readonly events: RequestEvents,
    private readonly resumeMs = RESUME_MS,
  ) {
    this.head = introduction(contextId);
  }

  /** Whether a request can be sent now. */
  get isReady(): boolean {
    return (
      !this.draining &&
      this.resend.length === 0 &&
      this.retry === undefined &&
      this.over === undefined
    );
  }

  /** Sends a request; it must be ready. */
  send(commands: Parts, count: number): void {
    this.number += 1n;
    const message = joinRequest(this.number, this.acknowledged, commands);
    const sent = { number: this.number, message, commands: count };
    this.unanswered.push(sent);
    this.transmit(sent);
  }

  /** Ends all from this side. */
  cancel(reason: AclnnError = new HandleNotFoundError("the context is closed")): void {
    if (this.over !== undefined) return;
    this.over = reason;
    clearTimeout(this.retry);
    this.retry = undefined;
    this.call?.cancel();
    this.call = undefined;
    this.events.over(reason);
  }

  private transmit({ message }: Sent): void {
    this.call ??= this.open();
    this.draining = !this.call.send(this.introduced ? message : joined([this.head, message]));
    this.introduced = true;
  }

  private open(): SubmitCall {
    const number = ++this.calls;
    this.introduced = false;
    const current = (act: () => void): void => {
      if (number === this.calls && this.over === undefined) act();
    };
    return this.openCall({
      response: (message) => current(() => this.read(message)),
      drained: () => current(() => this.drained()),
      ended: (error) => current(() => this.ended(error)),
    });
  }

  private drained(): void {
    this.draining = false;
    for (let next = this.resend.shift(); next !== undefined; next = this.resend.shift()) {
      this.transmit(next);
      if (this.draining) return;
    }
    this.events.ready();
  }

  private read(message: Uint8Array): void {
    const answer = decoded(message);
    const asked = this.unanswered.shift();
    if (
      answer === undefined ||
      answer.sequence !== asked?.number ||
      answer.results.length !== asked.commands
    ) {
      this.cancel(new InternalError("the server's answers do not fit what was asked"));
      return;
    }
    this.attempts = 0;
    if (asked.number === UNNUMBERED) return;
    this.acknowledged = answer.sequence;
    this.events.answered(answer.results);
  }

  // --- the end, or not --------------------------------------------------------------------------

  /** What to do about a call that has ended: begin anew, or tell why not. */
  private ended(error: AclnnError): void {
    this.call = undefined;
    this.draining = false;
    this.unanswered = this.unanswered.filter((sent) => sent.number !== UNNUMBERED);
    const pause = this.pauseBeforeAnother(error);
    if (pause === undefined) {
      const tried = this.attempts > 0 && error instanceof ServerUnavailable;
      this.cancel(tried ? cannotReturn(error) : error);
      return;
    }
    this.attempts += 1;
    this.retry = setTimeout(() => this.begin(), pause);
  }

  /** Milliseconds before the call is opened again; undefined where there is no use in it. */
  private pauseBeforeAnother(error: AclnnError): number | undefined {
    let pause =
      this.attempts > 0 ? Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** (this.attempts - 1)) : 0;
    if (error instanceof LimitExceededError) {
      // The server has no room for one more call, and says so when it is opened.
      if (error.retryAfterMs === 0 && !error.message.includes(FULL)) return undefined;
      pause = Math.max(pause, PAUSE_MS, error.retryAfterMs) * (1 + Math.random() * JITTER);
    } else if (!(error instanceof ServerUnavailable) || error instanceof EndedByServer) {
      return undefined;
    }
    if (NOBODY_THERE.some((words) => error.message.includes(words))) return undefined;
    // While nobody waits for anything there is no hurry: the context lives for as long as its lease.
    if (this.attempts === 0 || this.unanswered.length === 0) this.brokenAt = performance.now();
    return performance.now() - this.brokenAt < this.resumeMs ? pause : undefined;
  }

  private begin(): void {
    this.retry = undefined;
    this.resend = [...this.unanswered];
    if (this.resend.length === 0) {
      // An open call keeps the context alive; it is opened by naming the context.
      const opening = { number: UNNUMBERED, message: new Uint8Array(), commands: 0 };
      this.unanswered.push(opening);
      this.transmit(opening);
    }
    if (!this.draining) this.drained();
  }
}

function decoded(message: Uint8Array): SubmitResponse | undefined {
  try {
    return SubmitResponse.decode(message);
  } catch {
    return undefined;
  }
}

function cannotReturn(error: AclnnError): AclnnError {
  return new ServerUnavailable(
    `the connection broke, and could not be made again: ${error.message}`,
  );
}
