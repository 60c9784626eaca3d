/** A question that asks itself again when what it depends on changes. */
import { ask, known, Refusal, type Answered, type Asked, type Question } from "./api";
import { words } from "./text/index.svelte";

export class Answer<Q extends Question> {
  /** The latest answer; while a newer one is on its way, still the one before. */
  value = $state.raw<Answered<Q> | undefined>();
  error = $state<string | undefined>();
  loading = $state(false);
  private tries = $state(0);

  /** Made while a component is set up. `asked` returns null when there is nothing to ask yet. What takes longer is asked
   * `after` another question: once that is answered and its answer is on the screen, so that drawing it need not share
   * the processor. */
  constructor(question: Q, asked: () => Asked<Q> | null, after?: { loading: boolean; value: unknown }) {
    // By its text: a question that is made anew but says the same is not asked again.
    const wanted = $derived(JSON.stringify(asked()));
    $effect(() => {
      void this.tries;
      const body = JSON.parse(wanted) as Asked<Q> | null;
      const there = body === null ? undefined : known(question, body);
      if (body === null || there !== undefined || (after && !after.loading && after.value === undefined)) {
        this.value = there;
        this.error = undefined;
        this.loading = false;
        return;
      }
      this.loading = true;
      if (after?.loading) return;
      const stop = new AbortController();
      (after ? painted() : Promise.resolve())
        .then(() => (stop.signal.aborted ? undefined : ask(question, body, stop.signal)))
        .then((value) => {
          if (stop.signal.aborted) return;
          this.value = value;
          this.error = undefined;
        })
        .catch((error: unknown) => {
          if (stop.signal.aborted) return;
          this.value = undefined;
          this.error = sentence(error);
        })
        .finally(() => {
          if (!stop.signal.aborted) this.loading = false;
        });
      return () => stop.abort();
    });
  }

  again = (): void => {
    this.tries += 1;
  };
}

/** When what has changed by now is on the screen: the frame that has it is done as the next one begins. */
function painted(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}

/** An error as the page says it. */
export function sentence(error: unknown): string {
  if (error instanceof Refusal) return error.unreachable ? words.t.shell.unreachable : error.message;
  return error instanceof Error ? error.message : String(error);
}
