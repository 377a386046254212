import { defineConfig } from 'vitest/config';

export default defineConfig({
  // A busy machine takes several times as long as a quiet one; a test that hangs still ends.
  test: { include: ['tests/**/*.test.ts'], testTimeout: 240_000 },
});
