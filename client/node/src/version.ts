/** Version of this package. */
export const VERSION = "0.1.0";
/** Version of the schema in `aclnn.v1` that this package speaks. */
export const PROTOCOL_VERSION = 1;
