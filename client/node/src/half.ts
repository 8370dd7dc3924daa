/** Floating point numbers of 16 bits, which travel as their bits in a Uint16Array. */

const BYTES = new DataView(new ArrayBuffer(8));

/** Rounds to a whole number, halves to the even one; exact for what a double holds. */
function rounded(value: number): number {
  const whole = Math.floor(value);
  const rest = value - whole;
  if (rest !== 0.5) return rest > 0.5 ? whole + 1 : whole;
  return whole % 2 === 0 ? whole : whole + 1;
}

function float16Bits(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00; // half way to what would be the next number, and beyond
  if (size < 2 ** -14) return sign | rounded(size * 2 ** 24);
  BYTES.setFloat64(0, size);
  const exponent = (BYTES.getUint16(0) >> 4) - 1023;
  // A fraction that is rounded up to 2 carries into the exponent, as it should.
  return sign | (((exponent + 15) << 10) + rounded((size / 2 ** exponent - 1) * 1024));
}

function float16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function bfloat16Bits(value: number): number {
  BYTES.setFloat32(0, value);
  const bits = BYTES.getUint32(0);
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  // Half of what is cut off, and one more where the last bit that stays is set: halves go to even.
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

function bfloat16Value(bits: number): number {
  BYTES.setUint32(0, bits << 16);
  return BYTES.getFloat32(0);
}

/** Bits of FLOAT16 numbers, rounded to the nearest, halves to even. */
export function toFloat16(values: ArrayLike<number>): Uint16Array {
  return Uint16Array.from(values, float16Bits);
}

/** FLOAT16 numbers from their bits. */
export function fromFloat16(bits: ArrayLike<number>): Float32Array {
  return Float32Array.from(bits, float16Value);
}

/** Bits of bfloat16 (BF16) numbers, rounded to the nearest, halves to even. */
export function toBfloat16(values: ArrayLike<number>): Uint16Array {
  return Uint16Array.from(values, bfloat16Bits);
}

/** bfloat16 (BF16) numbers from their bits. */
export function fromBfloat16(bits: ArrayLike<number>): Float32Array {
  return Float32Array.from(bits, bfloat16Value);
}
