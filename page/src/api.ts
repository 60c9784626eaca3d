/** Requests to the server: responses are cached, an error is one sentence. */
import { decode } from "./binary";
import type { Routes } from "./protocol.generated";

export type RouteName = keyof Routes;
export type RequestOf<R extends RouteName> = Routes[R]["request"];
export type ResponseOf<R extends RouteName> = Routes[R]["response"];

const MAX_CACHED = 200;
const cache = new Map<string, unknown>();

/** The server's error message; `unreachable` if there was no response at all. */
export class RequestError extends Error {
  constructor(
    message: string,
    readonly unreachable = false,
  ) {
    super(message);
  }
}

/** The cached response, if there is one. */
export function cached<R extends RouteName>(route: R, request: RequestOf<R>): ResponseOf<R> | undefined {
  const key = keyOf(route, request);
  const response = cache.get(key);
  if (response === undefined) return undefined;
  cache.delete(key); // the least recently used response is dropped first
  cache.set(key, response);
  return response as ResponseOf<R>;
}

/** How much of a long computation is done; `total` is null if the server does not know it. */
export interface Progress {
  done: number;
  total: number | null;
}

export async function send<R extends RouteName>(
  route: R,
  request: RequestOf<R>,
  signal?: AbortSignal,
  onprogress?: (progress: Progress) => void,
): Promise<ResponseOf<R>> {
  const before = cached(route, request);
  if (before !== undefined) return before;
  const response = await post<ResponseOf<R>>(route, request, signal, onprogress);
  cache.set(keyOf(route, request), response);
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value!);
  return response;
}

function keyOf(route: string, request: unknown): string {
  return `${route} ${JSON.stringify(request)}`;
}

async function post<T>(route: string, request: unknown, signal?: AbortSignal, onprogress?: (progress: Progress) => void): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/${route}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(onprogress ? { accept: "text/event-stream" } : {}) },
      body: JSON.stringify(request),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError("unreachable", true);
  }
  const type = response.headers.get("content-type") ?? "";
  if (!response.ok) {
    const message = type.includes("json") ? ((await response.json()) as { error?: string }).error : undefined;
    throw new RequestError(message ?? `${response.status} ${response.statusText}`);
  }
  if (type.includes("octet-stream")) return decode(await response.arrayBuffer()) as T;
  if (type.includes("event-stream")) return (await result(response.body!, onprogress!)) as T;
  return (await response.json()) as T;
}

/** Reads server-sent events up to the result (see glassformer/page/events.py). */
async function result(body: ReadableStream<Uint8Array>, onprogress: (progress: Progress) => void): Promise<unknown> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new RequestError("unreachable", true);
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop()!;
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: ([^]*)$/.exec(event) ?? [];
      if (name === "progress") onprogress(JSON.parse(data) as Progress);
      else if (name === "error") throw new RequestError((JSON.parse(data) as { error: string }).error);
      else if (name === "answer") return JSON.parse(data);
      else if (name === "binary") return decode(Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)).buffer);
    }
  }
}
