/** One text and one selection for all panels, mirrored in the address bar. */
import { formatAddress, parseAddress, type Address, type StackChoice } from "./address";

class UrlState {
  private address = $state<Address>(parseAddress(location.search));

  constructor() {
    window.addEventListener("popstate", () => (this.address = parseAddress(location.search)));
  }

  get panel(): string {
    return this.address.panel;
  }
  get model(): string {
    return this.address.model;
  }
  get text(): string | null {
    return this.address.text;
  }
  get pair(): string | null {
    return this.address.pair;
  }
  get target(): string | null {
    return this.address.target;
  }
  get output(): string | null {
    return this.address.output;
  }
  get stack(): StackChoice {
    return this.address.stack;
  }
  get token(): number | null {
    return this.address.token;
  }
  get layer(): number {
    return this.address.layer;
  }
  get head(): number {
    return this.address.head;
  }

  /** What a panel keeps for itself in the address, under `panel.name`. */
  get(key: string): string | undefined {
    return this.address.more[key];
  }

  set(key: string, value: string | null): void {
    const { [key]: _, ...others } = this.address.more;
    this.change({ more: value === null ? others : { ...others, [key]: value } });
  }

  /** Selecting replaces the address; another panel, model or text is a step that "back" undoes. */
  change(change: Partial<Address>): void {
    const before = formatAddress(this.address);
    const step = (["panel", "model", "text", "pair", "target"] as const).some(
      (key) => change[key] !== undefined && change[key] !== this.address[key],
    );
    Object.assign(this.address, change);
    const after = formatAddress(this.address);
    if (after === before) return;
    if (step) history.pushState(null, "", after);
    else history.replaceState(null, "", after);
  }
}

export const urlState = new UrlState();
