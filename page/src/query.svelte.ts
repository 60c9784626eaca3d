/** A request that is sent again when what it depends on changes. */
import { cached, RequestError, send, type RequestOf, type ResponseOf, type RouteName } from "./api";
import { words } from "./text/index.svelte";

export class Query<R extends RouteName> {
  /** The latest response; while a newer one is loading, the one before. */
  value = $state.raw<ResponseOf<R> | undefined>();
  error = $state<string | undefined>();
  loading = $state(false);
  private tries = $state(0);

  /**
   * Created while a component is set up.
   *
   * @param route The route.
   * @param request Returns the request, or null if there is nothing to send yet.
   * @param after A query that comes first: the request is sent when the response of that one is on the screen, so that
   *   drawing it does not share the processor with a longer computation.
   */
  constructor(route: R, request: () => RequestOf<R> | null, after?: { loading: boolean; value: unknown }) {
    // Compared as text: a new object with the same content is not sent again.
    const wanted = $derived(JSON.stringify(request()));
    $effect(() => {
      void this.tries;
      const body = JSON.parse(wanted) as RequestOf<R> | null;
      const known = body === null ? undefined : cached(route, body);
      if (body === null || known !== undefined || (after && !after.loading && after.value === undefined)) {
        this.value = known;
        this.error = undefined;
        this.loading = false;
        return;
      }
      this.loading = true;
      if (after?.loading) return;
      const stop = new AbortController();
      (after ? painted() : Promise.resolve())
        .then(() => (stop.signal.aborted ? undefined : send(route, body, stop.signal)))
        .then((value) => {
          if (stop.signal.aborted) return;
          this.value = value;
          this.error = undefined;
        })
        .catch((error: unknown) => {
          if (stop.signal.aborted) return;
          this.value = undefined;
          this.error = messageOf(error);
        })
        .finally(() => {
          if (!stop.signal.aborted) this.loading = false;
        });
      return () => stop.abort();
    });
  }

  retry = (): void => {
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
