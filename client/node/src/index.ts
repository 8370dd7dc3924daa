/**
 * Client of aclnn-serve: the two-phase aclnn operators of an Ascend NPU on another machine.
 *
 * ```js
 * import { connect, ops } from "aclnn-client";
 *
 * const context = await connect("localhost:50051");
 * const x = await context.tensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
 * const out = context.empty([2, 2], "float32");
 * const [size, executor] = await ops.aclnnReluGetWorkspaceSize(x, out);
 * await ops.aclnnRelu(context.malloc(size), size, executor);
 * console.log(await out.read());
 * await context.close();
 * ```
 *
 * Every error is an AclnnError.
 */

export { type ArrayLike, array, NdArray, type TypedArray } from "./arrays.js";
export { type CopyOptions, DeviceBuffer, type RangeOptions } from "./buffer.js";
export type { ConnectionOptions, Tls } from "./connection.js";
export { type ConnectOptions, Context, connect, type TensorOptions } from "./context.js";
export { type DType, type DTypeLike, type DTypeName, dtype, type NumpyName } from "./dtypes.js";
export { AclnnError } from "./error.js";
export { type Bindings, Executor, type RunOptions } from "./executor.js";
export * from "./generated/errors.js";
export * as ops from "./generated/ops.js";
export { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "./half.js";
export {
  type DeviceInfo,
  type Limits,
  type OperatorInfo,
  type ParameterInfo,
  type ServerInfo,
  serverInfo,
  type Usage,
} from "./info.js";
export type { Input, InputList, OneLineOptions } from "./oneLine.js";
export { Scalar, type ScalarValue } from "./scalar.js";
export { Event, Stream, type SynchronizeOptions } from "./stream.js";
export type { WaitOptions } from "./submit.js";
export { Tensor } from "./tensor.js";
export { execute, getWorkspaceSize, type PhaseOneOptions } from "./twoPhase.js";
export type { ScalarLike, TensorLike } from "./values.js";
export { VERSION } from "./version.js";
