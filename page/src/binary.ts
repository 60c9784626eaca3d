/**
 * Answers with many numbers: one body of facts (JSON) and arrays.
 *
 * The body (application/octet-stream, all little-endian): a uint32 n; n bytes of JSON, UTF-8, with spaces at
 * its end so that 4 + n is a multiple of 8; then the arrays, each starting at a multiple of 8 of what follows.
 * The JSON is `{"facts": ..., "arrays": {name: {"shape", "axes", "dtype", "start"}}}`.
 */
export interface Named {
  shape: number[];
  axes: string[];
  /** Row-major. Float16 is widened here, so that nobody else has to know of it. */
  values: Float32Array | Int32Array;
}

export interface Packed<Facts, Name extends string> {
  facts: Facts;
  arrays: Record<Name, Named>;
}

interface Header {
  facts: unknown;
  arrays: Record<string, { shape: number[]; axes: string[]; dtype: "float16" | "float32" | "int32"; start: number }>;
}

export function unpack<Facts, Name extends string>(body: ArrayBuffer): Packed<Facts, Name> {
  const size = new DataView(body).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, size))) as Header;
  const arrays = Object.entries(header.arrays).map(([name, { shape, axes, dtype, start }]) => {
    const count = shape.reduce((a, b) => a * b, 1);
    const at = 4 + size + start;
    const values =
      dtype === "float16" ? widened(new Uint16Array(body, at, count))
      : dtype === "float32" ? new Float32Array(body, at, count)
      : new Int32Array(body, at, count);
    return [name, { shape, axes, values }] as const;
  });
  return { facts: header.facts as Facts, arrays: Object.fromEntries(arrays) as Record<Name, Named> };
}

/** All 65,536 numbers of 16 bits, made once: looking up is faster than computing. */
let table: Float32Array | undefined;

function widened(halves: Uint16Array): Float32Array {
  table ??= Float32Array.from({ length: 0x10000 }, (_, bits) => wide(bits));
  const known = table;
  const out = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) out[i] = known[halves[i]!]!;
  return out;
}

function wide(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
}
