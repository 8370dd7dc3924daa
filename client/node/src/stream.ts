/** Streams, the ordered queues of work in a context, and events, the marks in them. */

import type { DeviceBuffer } from "./buffer.js";
import type { Context } from "./context.js";
import { endWith, forget } from "./finalizing.js";
import {
  CreateEventRequest,
  DestroyStreamRequest,
  GetEventElapsedTimeRequest,
  QueryEventRequest,
  QueryStreamRequest,
  RecordEventRequest,
  SynchronizeEventRequest,
  SynchronizeStreamRequest,
  WaitEventRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import type { Duration } from "./generated/messages/google/protobuf/duration.js";
import { type AnswerOf, CONTEXT, command, type Pending } from "./pending.js";
import { refuse, shown } from "./refusing.js";
import type { WaitOptions } from "./submit.js";

/** How long to wait. */
export interface SynchronizeOptions extends WaitOptions {
  /** Milliseconds; without, there is no limit. */
  timeout?: number;
}

function duration(milliseconds: number): Duration {
  if (!(milliseconds >= 0 && milliseconds < 1e12)) {
    refuse("timeout", `is ${shown(milliseconds)}; it must be milliseconds of at least 0`);
  }
  const nanoseconds = BigInt(Math.round(milliseconds * 1e6));
  return { seconds: nanoseconds / 1_000_000_000n, nanos: Number(nanoseconds % 1_000_000_000n) };
}

/** The command that waits for the work of a stream; of all, where the id is empty. */
export function synchronizing(
  streamId: string,
  timeout?: number,
): Pending<AnswerOf<"synchronizeStream">> {
  const limit = timeout === undefined ? undefined : duration(timeout);
  const request = SynchronizeStreamRequest.create({ streamId, ...(limit && { timeout: limit }) });
  return command("synchronizeStream", request, { patience: timeout ?? 0 });
}

/** An ordered queue of work; work of several streams runs in parallel. */
export class Stream {
  /** Whether work was queued since it was last waited for. */
  dirty = false;
  private destroyed = false;

  /** Wraps a stream that the server made; see `context.createStream`. */
  constructor(
    /** Context that it belongs to. */
    readonly context: Context,
    /** Names it in every call; keep it secret. */
    readonly streamId: string,
    private readonly isDefault = false,
  ) {
    if (!isDefault) endWith(this, context.commands, { kind: "stream", id: streamId });
  }

  /**
   * Waits until the work queued so far is done.
   *
   * @throws WaitTimeoutError 507046: it takes longer; the work goes on.
   * @throws AclnnError: the first failure, since the last time, of that work or of a command that nobody
   *   waited for.
   */
  async synchronize({ timeout, signal }: SynchronizeOptions = {}): Promise<void> {
    const pending = this.synchronizing(timeout);
    const places = [this.streamId, CONTEXT];
    try {
      await this.context.commands.ask(pending, { places, keepAt: this.streamId, signal });
    } catch (error) {
      this.dirty = true;
      throw error;
    }
  }

  /** Whether the work queued so far is done, without waiting for it. */
  async query(options?: WaitOptions): Promise<boolean> {
    const request = QueryStreamRequest.create({ streamId: this.streamId });
    return (await this.context.commands.ask(command("queryStream", request), options)).complete;
  }

  /**
   * Holds up work that is queued from now on until the event's latest mark has been passed.
   *
   * An event without a mark holds nothing up. Never waits itself.
   */
  wait(event: Event): void {
    this.checkOwn(event);
    const request = WaitEventRequest.create({ eventId: event.eventId, streamId: this.streamId });
    this.context.commands.post("waitEvent", request, this.streamId);
    this.dirty = true;
  }

  /**
   * Destroys it at once: running work ends, queued work is dropped. See {@link close}.
   *
   * @throws NotReadyError 107006: it is the context's default stream, which lives as long.
   */
  async destroy(options?: WaitOptions): Promise<void> {
    if (this.destroyed) return;
    const request = DestroyStreamRequest.create({ streamId: this.streamId });
    await this.context.commands.ask(command("destroyStream", request), options);
    this.destroyed = true;
    this.dirty = false;
    forget(this);
  }

  /** Waits for the work, as {@link synchronize} does, and destroys it. */
  async close(): Promise<void> {
    if (!this.destroyed) await this.synchronize();
    if (!this.isDefault) await this.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Notes work that was queued, and the buffers that it uses. */
  noteWork(buffers: Iterable<DeviceBuffer>): void {
    for (const buffer of buffers) buffer.stream = this;
    this.dirty = true;
  }

  /** The command that waits for the work queued so far. */
  synchronizing(timeout?: number): Pending<AnswerOf<"synchronizeStream">> {
    const pending = synchronizing(this.streamId, timeout);
    this.dirty = false;
    return pending;
  }

  /** Refuses an event of another context. */
  checkOwn(event: Event): void {
    if (event.context !== this.context) refuse("event", "belongs to another context");
  }
}

/** A mark in a stream, to wait for or to time; ended some time after nothing refers to it any more. */
export class Event {
  /** Its id, unique in its context. */
  readonly eventId: bigint;
  private ended = false;

  /** Creates it on the server; see `context.createEvent`. */
  constructor(
    /** Context that it belongs to. */
    readonly context: Context,
  ) {
    const { commands } = context;
    this.eventId = commands.nextId();
    commands.post(
      "createEvent",
      CreateEventRequest.create({ eventId: this.eventId }),
      CONTEXT,
      true,
    );
    endWith(this, commands, { kind: "event", id: this.eventId });
  }

  /**
   * Puts a mark into a stream (default: the context's default stream). Never waits.
   *
   * The mark is passed when the work queued before it is done. It replaces an older one.
   */
  record(stream: Stream = this.context.defaultStream): void {
    stream.checkOwn(this);
    const request = RecordEventRequest.create({ eventId: this.eventId, streamId: stream.streamId });
    this.context.commands.post("recordEvent", request, stream.streamId);
  }

  /**
   * Waits until the latest mark has been passed.
   *
   * @throws WaitTimeoutError 507047: it takes longer.
   */
  async synchronize({ timeout, signal }: SynchronizeOptions = {}): Promise<void> {
    const limit = timeout === undefined ? undefined : duration(timeout);
    const request = SynchronizeEventRequest.create({
      eventId: this.eventId,
      ...(limit && { timeout: limit }),
    });
    const pending = command("synchronizeEvent", request, { patience: timeout ?? 0 });
    await this.context.commands.ask(pending, { signal });
  }

  /** Whether the latest mark has been passed; true where there is none. */
  async query(options?: WaitOptions): Promise<boolean> {
    const request = QueryEventRequest.create({ eventId: this.eventId });
    return (await this.context.commands.ask(command("queryEvent", request), options)).complete;
  }

  /**
   * Milliseconds from this event's mark to that of `end`; negative where `end` was first.
   *
   * @throws NotReadyError 107006: a mark is missing or not passed yet.
   */
  async elapsedTime(end: Event, options?: WaitOptions): Promise<number> {
    if (end.context !== this.context) refuse("end", "belongs to another context");
    const request = GetEventElapsedTimeRequest.create({
      startEventId: this.eventId,
      endEventId: end.eventId,
    });
    const answer = await this.context.commands.ask(
      command("getEventElapsedTime", request),
      options,
    );
    return Number(answer.elapsedNs) / 1e6;
  }

  /** Ends it; without effect where that is done. */
  destroy(): void {
    if (this.ended) return;
    this.ended = true;
    forget(this);
    this.context.commands.end({ kind: "event", id: this.eventId });
  }

  [Symbol.dispose](): void {
    this.destroy();
  }
}
