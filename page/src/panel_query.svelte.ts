/** A query of a panel, with the selection that its answer is about. */
import type { RequestOf, RouteName } from "./api";
import { Query, type QueryOptions } from "./query.svelte";
import { session, type Selection } from "./session.svelte";

interface Options extends QueryOptions {
  /** What the request is about; default: what is selected. It differs where a request is made from another answer. */
  selection?: () => Selection;
}

export class PanelQuery<R extends RouteName> extends Query<R> {
  private kept: Selection | undefined;
  private readonly selection: () => Selection;
  /** The selection when the answer came: what a panel writes beside the numbers of `value` is taken from here, so that
   *  old numbers do not stand under new captions while a newer answer is on its way. */
  readonly shown: Selection = $derived.by(() => {
    if (!this.loading || !this.kept) this.kept = this.selection();
    return this.kept;
  });

  constructor(route: R, request: () => RequestOf<R> | null, { selection = () => session.selection, ...options }: Options = {}) {
    super(route, request, options);
    this.selection = selection;
  }
}
