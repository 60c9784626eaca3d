import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The server to talk to while developing: `python -m glassformer open --no-browser --port 8200`.
const server = `http://127.0.0.1:${process.env.GLASSFORMER_PORT ?? "8200"}`;

export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    outDir: "../glassformer/page/static",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    target: "es2022",
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        codeSplitting: false,
      },
    },
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } },
  },
});
