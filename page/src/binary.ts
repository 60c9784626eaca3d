/** Decodes responses of JSON metadata and arrays; glassformer/page/binary_response.py describes the format. */
export interface NamedArray {
  shape: number[];
  axes: string[];
  /** Row-major; float16 is converted to float32. */
  values: Float32Array | Int32Array;
}

export interface BinaryResponse<Metadata, Name extends string> {
  metadata: Metadata;
  arrays: Record<Name, NamedArray>;
}

interface Header {
  metadata: unknown;
  arrays: Record<string, { shape: number[]; axes: string[]; dtype: "float16" | "float32" | "int32"; start: number }>;
}

export function decode<Metadata, Name extends string>(body: ArrayBuffer): BinaryResponse<Metadata, Name> {
  const size = new DataView(body).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, size))) as Header;
  const arrays = Object.entries(header.arrays).map(([name, { shape, axes, dtype, start }]) => {
    const count = shape.reduce((a, b) => a * b, 1);
    const at = 4 + size + start;
    const values =
      dtype === "float16" ? float32Of(new Uint16Array(body, at, count))
      : dtype === "float32" ? new Float32Array(body, at, count)
      : new Int32Array(body, at, count);
    return [name, { shape, axes, values }] as const;
  });
  return { metadata: header.metadata as Metadata, arrays: Object.fromEntries(arrays) as Record<Name, NamedArray> };
}

/** All 65,536 values of float16, computed once: a table lookup is faster than the conversion. */
let table: Float32Array | undefined;

function float32Of(halves: Uint16Array): Float32Array {
  table ??= Float32Array.from({ length: 0x10000 }, (_, bits) => float16Value(bits));
  const values = table;
  const out = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) out[i] = values[halves[i]!]!;
  return out;
}

function float16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
}
