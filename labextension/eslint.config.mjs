import { relative } from 'node:path/posix';

import js from '@eslint/js';
import tseslint from 'typescript-eslint';

/** The rooms of the view from the lowest up: each imports from itself and from those before it. */
const ROOMS = [
  'model',
  'layout',
  'paint',
  'sections/parts',
  'sections/lists',
  'sections/array',
  'sections/mesh',
  'sections/device',
  'sections/program',
  'sections/session',
  'sections/page',
];

/** For each room, that it imports neither a room above nor the page on top. */
const floors = ROOMS.map((room, i) => {
  const allowed = ROOMS.slice(0, i);
  // As an import names them, from within the room.
  const below = allowed.map(other => `${relative(room, other)}/`.replaceAll('.', '\\.'));
  return {
    files: [`src/view/${room}/**`],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              // Nothing but the rooms is beside them, and above them are only those who use the view.
              regex: ['^(?=\\.\\./)', ...below.map(path => `(?!${path})`)].join(''),
              message: `${room}/ imports only from ${[...allowed, room].join('/, ')}/: arrows point down. Move what both need to the lowest room that needs it.`,
            },
          ],
        },
      ],
    },
  };
});

export default tseslint.config(
  { ignores: ['lib/**', 'node_modules/**', '.yarn/**', 'eslint.config.mjs', 'vitest.config.ts'] },
  // Made by `jlpm types`.
  { ignores: ['src/view/model/snapshot.ts', 'src/view/model/messages.ts'] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      'no-console': 'error',
      eqeqeq: 'error',
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
      // Numbers are what this view mostly writes into texts.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  {
    // The style sheet is plain JavaScript that no tsconfig covers.
    files: ['style/*.js'],
    ...tseslint.configs.disableTypeChecked,
  },
  {
    // Lumino's signals take a method and its object apart from each other: `connect(this.f, this)`.
    files: ['src/*.ts', 'src/controls/*.ts'],
    rules: { '@typescript-eslint/unbound-method': 'off' },
  },
  ...floors,
  { files: ['tests/**'], rules: { 'max-lines-per-function': 'off' } },
);
