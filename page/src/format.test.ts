import { describe, expect, it, vi } from "vitest";
import { percent } from "./format";

describe("percent", () => {
  it("is 100% only for a whole share", () => {
    expect([1, 0.99996, 0.9982, 0.995, 0.994, 0.5, 0.04, 0.0004, 0].map(percent)).toEqual(
      ["100%", ">99.9%", "99.8%", "99.5%", "99%", "50%", "4.0%", "<0.1%", "0.0%"],
    );
  });
});

describe("ink", () => {
  it("can be read on every color of numbers", async () => {
    vi.stubGlobal("window", { matchMedia: () => ({ matches: false, addEventListener: () => {} }) });
    const { colors, inkOn } = await import("./theme.svelte");
    const light = (color: number[]) => {
      const [r, g, b] = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    for (const dark of [false, true])
      for (const palette of ["sequential", "diverging"] as const)
        for (const color of colors(dark, palette)) {
          const ink = inkOn(color).match(/[0-9a-f]{2}/g)!.map((part) => parseInt(part, 16));
          const [low, high] = [light(color), light(ink)].sort((a, b) => a - b);
          expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5);
        }
  });
});
