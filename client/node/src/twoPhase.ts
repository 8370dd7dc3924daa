/** The two phases of an operator: plan it and size its workspace, then queue it on a stream. */

import { type ArrayLike, asArray, isArray } from "./arrays.js";
import type { DeviceBuffer } from "./buffer.js";
import type { Context } from "./context.js";
import { type Bindings, Executor, workspaceOf } from "./executor.js";
import { isIterable } from "./numbers.js";
import { refuse, shown } from "./refusing.js";
import { knownSignature, type Signature } from "./signatures.js";
import type { Stream } from "./stream.js";
import type { WaitOptions } from "./submit.js";
import { Tensor } from "./tensor.js";
import { encode, tensorsOf } from "./values.js";

/** Bytes of an array up to which it travels with the call; a larger one is uploaded first. */
const INLINE_BYTES = 2 ** 15;

/** Settings of phase one. */
export interface PhaseOneOptions extends WaitOptions {
  /** Whether the executor may be run more than once; default false. */
  repeatable?: boolean;
  /** Context to plan in; needed where no argument is a tensor of one. */
  context?: Context;
}

/**
 * Phase one of any operator, known here or to the server alone: validates a call, plans it and tells the
 * scratch memory that it needs.
 *
 * A call that is equal to one before, with other buffers or not, is answered from memory; the server
 * validates it all the same, and a failure is told by phase two or the next wait.
 *
 * @param operator C name, with the aclnn prefix.
 * @param values arguments of the C prototype, in order, or by the prototype's names.
 * @returns bytes of workspace that phase two needs, and the executor.
 * @throws NullPointerError 161001: an argument that must not be null is.
 * @throws InvalidParameterError 161002: an argument cannot be; the text says why.
 * @throws ViewOutsideStorageError 561103: a tensor's view reaches outside its storage.
 * @throws OperatorNotFoundError 100024: the server has no such operator.
 */
export async function getWorkspaceSize(
  operator: string,
  values: readonly unknown[] | Readonly<Record<string, unknown>>,
  options: PhaseOneOptions = {},
): Promise<[size: number, executor: Executor]> {
  const given: readonly unknown[] = Array.isArray(values) ? values : Object.values(values);
  const context = contextOf(operator, given, options.context);
  const signature = knownSignature(operator) ?? (await context.findSignature(operator));
  const ordered = Array.isArray(values)
    ? given
    : inOrder(signature, values as Record<string, unknown>);
  // Without an upload all is sent before this function gives way: calls are sent in the program's order.
  const isLarge = (value: unknown): boolean => isArray(value) && mustBeUploaded(context, value);
  const waits = ordered.some(
    (value) => isLarge(value) || (Array.isArray(value) && value.some(isLarge)),
  );
  const call = encode(signature, waits ? await uploaded(context, signature, ordered) : ordered);
  const executor = new Executor(context, call, options.repeatable ?? false);
  await executor.plan(call, options);
  return [executor.workspaceSize, executor];
}

/** Phase one as the functions of `ops` get it: arguments, or an object of them, and perhaps options. */
export function phaseOne(
  operator: string,
  given: readonly unknown[],
): Promise<[size: number, executor: Executor]> {
  if (isPlain(given[0])) {
    return getWorkspaceSize(operator, given[0], (given[1] ?? {}) as PhaseOneOptions);
  }
  const last = given.at(-1);
  if (!isPlain(last)) return getWorkspaceSize(operator, given);
  return getWorkspaceSize(operator, given.slice(0, -1), last as PhaseOneOptions);
}

/**
 * Phase two of any operator: queues a planned call on a stream, without waiting for it.
 *
 * Failures are told by the next wait, for example `stream.synchronize()`.
 *
 * @param operator C name, with the aclnn prefix; the executor's.
 * @param workspace scratch memory; null is a null pointer.
 * @param workspaceSize its size in bytes.
 * @param executor from phase one.
 * @param stream default the context's default stream.
 * @throws InvalidParameterError 161002: an argument is of another kind, operator or context.
 */
export async function execute(
  operator: string,
  workspace: DeviceBuffer | null,
  workspaceSize: number,
  executor: Executor,
  stream?: Stream,
  options: { bindings?: Bindings } = {},
): Promise<void> {
  if (!(executor instanceof Executor)) {
    refuse("executor", `is ${shown(executor)}, which is no Executor`, operator);
  }
  if (executor.operator !== operator) {
    refuse("executor", `was planned for ${executor.operator}`, operator);
  }
  await executor.execute(stream, workspaceOf(executor, workspace, workspaceSize), options.bindings);
}

/** Whether it is an object that was written down in braces. */
function isPlain(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}

/** All arguments in the prototype's order. */
function inOrder(signature: Signature, named: Readonly<Record<string, unknown>>): unknown[] {
  const names = signature.parameters.map((row) => row.name);
  const wrong =
    Object.keys(named).find((name) => !names.includes(name)) ??
    names.find((name) => !Object.hasOwn(named, name));
  if (wrong !== undefined) {
    refuse(
      wrong,
      `- the arguments by name must be ${names.join(", ")}, and are ${Object.keys(named).join(", ") || "none"}`,
      signature.name,
    );
  }
  return names.map((name) => named[name]);
}

/** The arguments, with arrays that are too large to travel with the call uploaded. */
async function uploaded(
  context: Context,
  signature: Signature,
  values: readonly unknown[],
): Promise<unknown[]> {
  const placed = [...values];
  for (const [position, parameter] of signature.parameters.entries()) {
    const value = placed[position];
    if (parameter.output) continue;
    if (isArray(value) && mustBeUploaded(context, value))
      placed[position] = await context.tensor(value);
    if (parameter.kind !== "tensorList" || !isIterable(value) || isArray(value)) continue;
    const items: unknown[] = [];
    for (const item of value) {
      items.push(
        isArray(item) && mustBeUploaded(context, item) ? await context.tensor(item) : item,
      );
    }
    placed[position] = items;
  }
  return placed;
}

/** Whether an array is too large to travel with a call. */
function mustBeUploaded(context: Context, value: ArrayLike): boolean {
  return asArray(value).data.byteLength > Math.min(INLINE_BYTES, context.commands.inlineBytes / 8);
}

/** An array of an input where it goes with the call; a tensor where it was uploaded. */
export async function place(
  context: Context,
  value: Tensor | ArrayLike,
  options?: WaitOptions,
): Promise<Tensor | ArrayLike> {
  if (value instanceof Tensor || !mustBeUploaded(context, value)) return value;
  return context.tensor(value, undefined, options);
}

function contextOf(operator: string, values: readonly unknown[], named?: Context): Context {
  let context = named;
  for (const tensor of tensorsOf(values)) {
    context ??= tensor.context;
    if (tensor.context !== context) {
      refuse("context", "is not the same for all arguments; copy them into one", operator);
    }
  }
  if (context === undefined) {
    refuse(
      "context",
      "is missing: no argument is a tensor of one; name it in the options",
      operator,
    );
  }
  return context;
}
