/** Bytes between the caller's memory and a buffer, in chunks that are under way at the same time. */

import type { Commands } from "./commands.js";
import {
  ReadBufferRequest,
  WriteBufferRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import { command, Pending } from "./pending.js";
import type { WaitOptions } from "./submit.js";
import { writeParts } from "./wire.js";

/** Chunks of one transfer that are under way at the same time. */
const WINDOW = 16;

/**
 * Writes into a buffer; resolves when `data` may be changed, which may be before it has arrived.
 *
 * @param commands of the buffer's context.
 * @param bufferId the buffer.
 * @param offset bytes from its start.
 * @param data the bytes.
 */
export async function upload(
  commands: Commands,
  bufferId: bigint,
  offset: number,
  data: Uint8Array,
  options: WaitOptions = {},
): Promise<void> {
  const underWay: Pending[] = [];
  let last: Pending | undefined;
  for (const [start, part] of chunks(data, commands.chunkBytes)) {
    const request = WriteBufferRequest.create({ bufferId, offset: BigInt(offset + start) });
    last = new Pending(writeParts(request, part), { onError: commands.keeping("writeBuffer") });
    commands.submit([last]);
    underWay.push(last);
    if (underWay.length > WINDOW) await commands.answer(underWay.shift()!, options);
  }
  // What leaves with the next turn of the event loop is copied by then.
  if (last?.unsent) await new Promise((resolve) => setImmediate(resolve));
  if (last?.unsent) await commands.answer(last, options);
}

/** What is told along with a read. */
export interface DownloadOptions extends WaitOptions {
  /** A command to send in front, in the same request; its failure is told first. */
  before?: Pending | undefined;
  /** Failures kept for these places are told; that of `before` belongs to the first. */
  places: readonly string[];
}

/**
 * Reads from a buffer, straight into `into`.
 *
 * @throws AclnnError: what failed first.
 */
export async function download(
  commands: Commands,
  bufferId: bigint,
  offset: number,
  into: Uint8Array,
  { before, places, signal }: DownloadOptions,
): Promise<void> {
  const underWay: Pending[] = [];
  const received = async (pending: Pending): Promise<void> => {
    await commands.answer(pending, {
      places,
      signal,
      keepAt: pending === before ? places[0] : undefined,
    });
  };
  if (before !== undefined) {
    commands.submit([before], into.length > 0);
    underWay.push(before);
  }
  for (const [start, part] of chunks(into, commands.chunkBytes)) {
    const request = ReadBufferRequest.create({
      bufferId,
      offset: BigInt(offset + start),
      bytes: BigInt(part.length),
    });
    const pending = command("readBuffer", request, { into: part });
    commands.submit([pending]);
    underWay.push(pending);
    if (underWay.length > WINDOW) await received(underWay.shift()!);
  }
  for (const pending of underWay) await received(pending);
}

function* chunks(data: Uint8Array, size: number): Iterable<[start: number, part: Uint8Array]> {
  for (let start = 0; start < data.length; start += size)
    yield [start, data.subarray(start, start + size)];
}
