import { defineConfig } from 'vitest/config';

export default defineConfig({
  // A busy machine takes several times as long as a quiet one; what hangs ends all the same.
  test: { include: ['tests/**/*.test.ts'], testTimeout: 240_000 },
});
