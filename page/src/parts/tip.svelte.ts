/** The one tooltip of the page: any part shows it, App draws it. */

export interface Tip {
  x: number;
  y: number;
  title: string;
  lines: string[];
}

class Tips {
  now = $state<Tip | null>(null);

  /** At a point of the window, e.g. a pointer's. */
  show(x: number, y: number, title: string, ...lines: string[]): void {
    this.now = { x, y, title, lines };
  }

  hide(): void {
    this.now = null;
  }
}

export const tips = new Tips();
