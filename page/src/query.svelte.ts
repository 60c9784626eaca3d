/** A request that is sent again when what it depends on changes. */
import { cached, RequestError, send, type Progress, type RequestOf, type ResponseOf, type RouteName } from "./api";
import { words } from "./text/index.svelte";

/** What a request was answered with: a response or an error. */
interface Answer<R extends RouteName> {
  /** The request as text. */
  key: string;
  asked: RequestOf<R>;
  value?: ResponseOf<R>;
  error?: string;
}

export interface QueryOptions {
  /** A query that comes first: the request is sent when the response of that one is on the screen, so that drawing it
   *  does not share the processor with a longer computation. */
  after?: { loading: boolean; value: unknown };
  /** Whether the server tells how far it is: for long computations. */
  reports?: boolean;
}

export class Query<R extends RouteName> {
  private latest = $state.raw<Answer<R> | undefined>();
  private tries = $state(0);
  private last: Answer<R> | undefined;
  /** How far the server is with a request that reports it. */
  progress = $state.raw<Progress | undefined>();

  /** Requests are compared as text: a new object with the same content is not sent again. */
  private readonly key = $derived.by(() => {
    const { after } = this.options;
    return after && !after.loading && after.value === undefined ? "null" : JSON.stringify(this.request());
  });
  /** The answer to the current request or, while that is on its way, to the one before. */
  private readonly answer: Answer<R> | undefined = $derived.by(() => {
    const asked = JSON.parse(this.key) as RequestOf<R> | null;
    if (asked === null) this.last = undefined;
    else if (this.latest?.key === this.key) this.last = this.latest;
    else {
      const value = cached(this.route, asked);
      if (value !== undefined) this.last = { key: this.key, asked, value };
    }
    return this.last;
  });

  /** Whether the answer is still to the request before. */
  readonly loading: boolean = $derived(this.key !== "null" && this.answer?.key !== this.key);
  readonly value: ResponseOf<R> | undefined = $derived(this.answer?.value);
  /** The request that `value` answers: captions are made from it. */
  readonly asked: RequestOf<R> | undefined = $derived(this.answer?.asked);
  readonly error: string | undefined = $derived(this.loading ? undefined : this.answer?.error);

  /** Created while a component is set up; `request` returns null if there is nothing to send yet. */
  constructor(
    private readonly route: R,
    private readonly request: () => RequestOf<R> | null,
    private readonly options: QueryOptions = {},
  ) {
    $effect(() => {
      void this.tries;
      const key = this.key;
      if (!this.loading || this.options.after?.loading) return;
      const stop = new AbortController();
      this.progress = undefined;
      void this.fetch(key, stop.signal);
      return () => stop.abort();
    });
  }

  private async fetch(key: string, signal: AbortSignal): Promise<void> {
    const { after, reports } = this.options;
    if (after) await painted();
    if (signal.aborted) return;
    const asked = JSON.parse(key) as RequestOf<R>;
    let found: Pick<Answer<R>, "value" | "error">;
    try {
      found = { value: await send(this.route, asked, signal, reports ? (progress) => !signal.aborted && (this.progress = progress) : undefined) };
    } catch (error) {
      found = { error: messageOf(error) };
    }
    if (!signal.aborted) this.latest = { key, asked, ...found };
  }

  retry = (): void => {
    this.latest = this.last = undefined;
    this.tries += 1;
  };
}

/** Resolves when the current changes are on the screen: their frame is done when the next one begins. */
function painted(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}

/** The message that the page shows for an error. */
export function messageOf(error: unknown): string {
  if (error instanceof RequestError) return error.unreachable ? words.t.shell.unreachable : error.message;
  return error instanceof Error ? error.message : String(error);
}
