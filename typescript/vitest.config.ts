import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Real servers are started: on a busy machine that takes longer than the usual five seconds.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
