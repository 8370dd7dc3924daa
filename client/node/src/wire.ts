/**
 * Requests of Submit, put together from commands that are encoded already.
 *
 * The generated code copies a message once for each message that it is nested in, and a chunk of a large
 * transfer stands inside three. Here its bytes are written once, into the request that is sent.
 */

import {
  Command,
  SubmitRequest,
  WriteBufferRequest,
} from "./generated/messages/aclnn/v1/device_service.js";
import { GetWorkspaceSizeRequest } from "./generated/messages/aclnn/v1/operator_service.js";

/** A command as it stands in a request, in parts. */
export type Parts = readonly Uint8Array[];

/** Numbers of the fields that are written here; tests compare with the generated code. */
const SUBMIT_REQUEST = { commands: 4 };
const COMMAND = { getWorkspaceSize: 1, writeBuffer: 9 };
const WRITE_BUFFER_REQUEST = { data: 6 };
const GET_WORKSPACE_SIZE_REQUEST = { arguments: 5 };

/** Tag and length of a length-delimited field. */
function head(field: number, length: number): Uint8Array {
  const bytes: number[] = [];
  for (let value of [(field << 3) | 2, length]) {
    for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
    bytes.push(value);
  }
  return Uint8Array.from(bytes);
}

/** Bytes of parts. */
export function sizeOf(parts: Parts): number {
  return parts.reduce((size, part) => size + part.length, 0);
}

/** A message inside another, in parts. */
function field(number: number, parts: Parts): Parts {
  return [head(number, sizeOf(parts)), ...parts];
}

/** A command, in the generated code's form. */
export function commandParts(command: NonNullable<Command["command"]>): Parts {
  return field(SUBMIT_REQUEST.commands, [Command.encode(Command.create({ command })).finish()]);
}

/** A write; `data` is not copied. */
export function writeParts(request: WriteBufferRequest, data: Uint8Array): Parts {
  const fields = WriteBufferRequest.encode(request).finish();
  const body = data.length ? [fields, ...field(WRITE_BUFFER_REQUEST.data, [data])] : [fields];
  return field(SUBMIT_REQUEST.commands, field(COMMAND.writeBuffer, body));
}

/** Phase one, whose arguments are encoded. */
export function planParts(request: GetWorkspaceSizeRequest, encoded: readonly Uint8Array[]): Parts {
  const values = encoded.flatMap((one) => field(GET_WORKSPACE_SIZE_REQUEST.arguments, [one]));
  const fields = GetWorkspaceSizeRequest.encode(request).finish();
  return field(SUBMIT_REQUEST.commands, field(COMMAND.getWorkspaceSize, [fields, ...values]));
}

/** The parts in one piece: the one copy of what is sent. */
export function joined(parts: Parts): Uint8Array {
  const whole = Buffer.allocUnsafe(sizeOf(parts));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}

/** A request of several commands. */
export function joinRequest(sequence: bigint, acknowledged: bigint, commands: Parts): Uint8Array {
  const fields = SubmitRequest.encode(SubmitRequest.create({ sequence, acknowledged })).finish();
  return joined([fields, ...commands]);
}

/** The request in front of which it stands names its context; fields of one message may come in two parts. */
export function introduction(contextId: string): Uint8Array {
  return SubmitRequest.encode(SubmitRequest.create({ contextId })).finish();
}
