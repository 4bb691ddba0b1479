import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The page: src/headwater/page, which ships inside the Python package.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/headwater/page",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
