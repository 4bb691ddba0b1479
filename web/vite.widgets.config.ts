import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { scoped } from "./src/widgets/scoped.ts";

// The same drawings for notebooks: one module and one style sheet beside the page.
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  css: { postcss: { plugins: [scoped("look.css", ".headwater-widget")] } },
  build: {
    outDir: "../src/headwater/page",
    emptyOutDir: false,
    target: "es2022",
    // Sent from the kernel with every drawing: as small as it can be.
    rolldownOptions: { output: { minify: true } },
    lib: { entry: "src/widgets/index.ts", formats: ["es"], fileName: () => "widgets.js", cssFileName: "widgets" },
  },
});
