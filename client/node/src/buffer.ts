/** Buffers: bytes of device memory. */

import { type ArrayLike, asArray, isArray } from "./arrays.js";
import type { Context } from "./context.js";
import { endWith, forget } from "./finalizing.js";
import {
  MallocRequest,
  MemcpyRequest,
  MemsetRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import { integer } from "./numbers.js";
import { CONTEXT } from "./pending.js";
import { refuse, shown } from "./refusing.js";
import type { Stream } from "./stream.js";
import type { WaitOptions } from "./submit.js";
import { download, upload } from "./transfer.js";

/** What part of a buffer is meant, and how it is waited for. */
export interface RangeOptions extends WaitOptions {
  /** Bytes from the start of the buffer; default 0. */
  offset?: number;
  /** Bytes; default to the end of the buffer. */
  size?: number;
}

/** What is copied, and when. */
export interface CopyOptions {
  /** Bytes from the start of this buffer; default 0. */
  offset?: number;
  /** Bytes from the start of the source; default 0. */
  sourceOffset?: number;
  /** Bytes; default to the end of the source. */
  size?: number;
  /** Stream to queue it in; default at once, after queued work that uses either buffer. */
  stream?: Stream;
}

/** Bytes of device memory; freed by `free`, or some time after nothing refers to it any more. */
export class DeviceBuffer {
  /** Its id, unique in its context. */
  readonly bufferId: bigint;
  /** Stream whose work used it last. */
  stream: Stream | undefined;
  private freed = false;

  /** Allocates; made by `context.malloc`. */
  constructor(
    /** Context that it belongs to. */
    readonly context: Context,
    /** Bytes. */
    readonly size: number,
  ) {
    const { commands } = context;
    this.bufferId = commands.nextId();
    const request = MallocRequest.create({ bufferId: this.bufferId, bytes: BigInt(size) });
    commands.post("malloc", request, CONTEXT, true);
    endWith(this, commands, { kind: "buffer", id: this.bufferId });
  }

  /** Frees it; without effect where that is done. Work that is queued keeps the memory. */
  free(): void {
    if (this.freed) return;
    this.freed = true;
    forget(this);
    this.context.commands.end({ kind: "buffer", id: this.bufferId });
  }

  [Symbol.dispose](): void {
    this.free();
  }

  /**
   * Writes bytes, after queued work that uses the buffer; resolves when `data` may be changed.
   *
   * @param data bytes, or an array whose storage is meant.
   * @throws InvalidParameterError 161002: the range is outside the buffer.
   */
  async write(
    data: ArrayBuffer | ArrayLike,
    options: Omit<RangeOptions, "size"> = {},
  ): Promise<void> {
    const bytes = bytesOf(data);
    const [offset] = this.range(options.offset, bytes.length);
    await upload(this.context.commands, this.bufferId, offset, bytes, options);
  }

  /**
   * Reads bytes, after queued work that uses the buffer.
   *
   * @throws InvalidParameterError 161002: the range is outside the buffer.
   * @throws AclnnError: work that used the buffer, or a command before, failed.
   */
  async read(options: RangeOptions = {}): Promise<Uint8Array> {
    const [offset, size] = this.range(options.offset, options.size);
    const into = new Uint8Array(size);
    await this.readInto(into, offset, options);
    return into;
  }

  /** Reads bytes into memory of the caller; errors as {@link read}. */
  async readInto(into: Uint8Array, offset: number, { signal }: WaitOptions = {}): Promise<void> {
    const { stream } = this;
    const places = stream === undefined ? [CONTEXT] : [stream.streamId, CONTEXT];
    const before = stream?.dirty ? stream.synchronizing() : undefined;
    await download(this.context.commands, this.bufferId, offset, into, { before, places, signal });
  }

  /**
   * Sets every byte, after queued work that uses the buffer.
   *
   * @throws InvalidParameterError 161002: the value is no byte.
   */
  fill(value: number): void {
    if (integer(value, "value", 0) > 255) refuse("value", `is ${value}; a byte is 0 to 255`);
    const request = MemsetRequest.create({
      bufferId: this.bufferId,
      bytes: BigInt(this.size),
      value,
    });
    this.context.commands.post("memset", request);
  }

  /**
   * Copies on the device from another buffer of the context, or from itself.
   *
   * @throws InvalidParameterError 161002: the source belongs to another context.
   */
  copyFrom(source: DeviceBuffer, options: CopyOptions = {}): void {
    const { offset = 0, sourceOffset = 0, stream } = options;
    const size = options.size ?? source.size - sourceOffset;
    if (source.context !== this.context) refuse("source", "belongs to another context");
    if (stream !== undefined && stream.context !== this.context)
      refuse("stream", "belongs to another context");
    const request = MemcpyRequest.create({
      streamId: stream?.streamId ?? "",
      destinationBufferId: this.bufferId,
      destinationOffset: BigInt(integer(offset, "offset", 0)),
      sourceBufferId: source.bufferId,
      sourceOffset: BigInt(integer(sourceOffset, "sourceOffset", 0)),
      bytes: BigInt(integer(size, "size", 0)),
    });
    this.context.commands.post("memcpy", request, stream?.streamId ?? CONTEXT);
    stream?.noteWork([this, source]);
  }

  private range(offset = 0, size?: number): [offset: number, size: number] {
    const start = integer(offset, "offset");
    const length = size === undefined ? this.size - start : integer(size, "size");
    if (start < 0 || length < 0 || start + length > this.size) {
      refuse("offset", `is ${start} and size ${length}; the buffer has ${this.size} bytes`);
    }
    return [start, length];
  }
}

function bytesOf(data: ArrayBuffer | ArrayLike): Uint8Array {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (!isArray(data)) refuse("data", `is ${shown(data)}; it must be bytes or an array`);
  return asArray(data).bytes();
}
