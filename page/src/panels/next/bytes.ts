/** 24,576 as "24 KiB". */
export function bytes(count: number): string {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const) {
    if (count >= size) return `${(count / size).toFixed(count / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${count} B`;
}
