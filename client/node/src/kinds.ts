/** What an argument is; the value is the name of its field in the protocol's Argument. */
export type Kind =
  | "tensor"
  | "tensorList"
  | "scalar"
  | "scalarList"
  | "intArray"
  | "floatArray"
  | "boolArray"
  | "text"
  | "int64Value"
  | "int32Value"
  | "int8Value"
  | "uint64Value"
  | "boolValue"
  | "doubleValue"
  | "floatValue"
  | "dataType";

/** The kind of each C type, without `const`. */
export const KIND_OF_C_TYPE: ReadonlyMap<string, Kind> = new Map([
  ["aclTensor*", "tensor"],
  ["aclTensorList*", "tensorList"],
  ["aclScalar*", "scalar"],
  ["aclScalarList*", "scalarList"],
  ["aclIntArray*", "intArray"],
  ["aclFloatArray*", "floatArray"],
  ["aclBoolArray*", "boolArray"],
  ["char*", "text"],
  ["int64_t", "int64Value"],
  ["int32_t", "int32Value"],
  ["int", "int32Value"],
  ["int8_t", "int8Value"],
  ["uint64_t", "uint64Value"],
  ["bool", "boolValue"],
  ["double", "doubleValue"],
  ["float", "floatValue"],
  ["aclDataType", "dataType"],
]);

/** Kinds whose C parameter is a pointer, so that null can be passed. */
export const POINTERS: ReadonlySet<Kind> = new Set<Kind>(
  [...KIND_OF_C_TYPE].filter(([cType]) => cType.endsWith("*")).map(([, kind]) => kind),
);
