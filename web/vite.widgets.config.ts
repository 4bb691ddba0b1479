import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The same drawings for notebooks: one module and one style sheet beside the page.
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  build: {
    outDir: "../src/headwater/page",
    emptyOutDir: false,
    target: "es2022",
    lib: { entry: "src/widgets/index.ts", formats: ["es"], fileName: () => "widgets.js", cssFileName: "widgets" },
  },
});
