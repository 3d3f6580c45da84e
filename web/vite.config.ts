import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Libraries that only some screens need are not in the first load.
const libraries = [
  { name: "vendor", test: /node_modules\/(?!uplot\/|@xterm\/|@tanstack\/(react-virtual|virtual-core)\/)|rolldown\/runtime/, priority: 2 },
  { name: "webgl", test: /node_modules\/@xterm\/addon-webgl\//, priority: 2 },
  { name: "search", test: /node_modules\/@xterm\/addon-search\//, priority: 2 },
  { name: "terminal", test: /node_modules\/@xterm\//, priority: 1 },
  { name: "chart", test: /node_modules\/uplot\//, priority: 1 },
  { name: "table", test: /node_modules\//, priority: 0 },
];

export default defineConfig({
  base: "/portal/",
  plugins: [react()],
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      // The libraries of React name the boundary of server components, which do not exist here.
      onwarn: (warning, warn) => warning.code !== "MODULE_LEVEL_DIRECTIVE" && warn(warning),
      output: { codeSplitting: { groups: libraries } },
    },
  },
  server: { proxy: { "^/(api|sign-in|sign-out|auth|payments|assets)": "http://localhost:8080" } },
  test: { environment: "happy-dom", include: ["test/**/*.test.{ts,tsx}"], setupFiles: ["test/setup.ts"], restoreMocks: true },
});
