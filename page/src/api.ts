/** Asking the server: answers are kept, the same question is asked once, an error is one sentence. */
import { unpack } from "./binary";
import type { Questions } from "./protocol";

export type Question = keyof Questions;
export type Asked<Q extends Question> = Questions[Q][0];
export type Answered<Q extends Question> = Questions[Q][1];

const MOST_KEPT = 200;
const kept = new Map<string, unknown>();

/** What went wrong, in words for the reader; `unreachable` when nobody answered at all. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly unreachable = false,
  ) {
    super(message);
  }
}

/** An answer that is there already is given at once, without waiting. */
export function known<Q extends Question>(question: Q, asked: Asked<Q>): Answered<Q> | undefined {
  const key = keyOf(question, asked);
  const answer = kept.get(key);
  if (answer === undefined) return undefined;
  kept.delete(key); // the oldest go first: this one is the newest again
  kept.set(key, answer);
  return answer as Answered<Q>;
}

export async function ask<Q extends Question>(
  question: Q,
  asked: Asked<Q>,
  signal?: AbortSignal,
): Promise<Answered<Q>> {
  const before = known(question, asked);
  if (before !== undefined) return before;
  const answer = await fetched<Answered<Q>>(question, asked, signal);
  kept.set(keyOf(question, asked), answer);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value!);
  return answer;
}

/** Forgets everything, e.g. when models may have changed. */
export function forget(): void {
  kept.clear();
}

function keyOf(question: string, asked: unknown): string {
  return `${question} ${JSON.stringify(asked)}`;
}

async function fetched<T>(question: string, asked: unknown, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/${question}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(asked),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("unreachable", true);
  }
  const type = response.headers.get("content-type") ?? "";
  if (!response.ok) {
    const said = type.includes("json") ? ((await response.json()) as { error?: string }).error : undefined;
    throw new Refusal(said ?? `${response.status} ${response.statusText}`);
  }
  if (type.includes("octet-stream")) return unpack(await response.arrayBuffer()) as T;
  return (await response.json()) as T;
}
