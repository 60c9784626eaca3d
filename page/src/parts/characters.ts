/** Tokens that have only a part of a character's bytes stand together. */
import type { PageToken } from "../protocol.generated";

export interface Run {
  /** The characters that the tokens make together; undefined for a token that is whole. */
  text?: string;
  from: number;
  to: number;
}

export function runsOf(tokens: readonly { character?: PageToken["character"] }[]): Run[] {
  const runs: Run[] = [];
  for (let from = 0; from < tokens.length; ) {
    const { text, parts } = tokens[from].character ?? { text: undefined, parts: 1 };
    runs.push({ text, from, to: from + parts });
    from += parts;
  }
  return runs;
}

/** A byte as "F0". */
export function byteOf(text: string): string {
  return /^<0x([0-9A-F]{2})>$/.exec(text)?.[1] ?? text;
}
