// Lint rules: type-checked and strict for TypeScript, plus the dependency rules between folders
// (scripts/eslint-layers.mjs) and, per folder, the globals that would break its promise.

import js from '@eslint/js';
import tseslint from 'typescript-eslint';
import { layersRule } from './scripts/eslint-layers.mjs';

/** @param {string} name @param {string} message */
const banned = (name, message) => ({ name, message });

export default tseslint.config(
  {
    ignores: ['dist/**', '.cache/**', '.vscode-test/**', '**/node_modules/**', 'examples/**'],
  },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname },
    },
    plugins: { 'fusion-lens': { rules: { layers: layersRule } } },
    rules: {
      'fusion-lens/layers': 'error',
      'no-undef': 'off',
      eqeqeq: 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/consistent-type-imports': [
        'error',
        { fixStyle: 'inline-type-imports', disallowTypeAnnotations: false },
      ],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' },
      ],
      // NodeId | ValueId documents, though both are strings.
      '@typescript-eslint/no-duplicate-type-constituents': 'off',
      // Numbers, booleans and the like are fine in a template.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true, allowNullish: false },
      ],
    },
  },
  {
    files: ['compiler/**/*.ts'],
    rules: {
      // The compiler is a function of its input: no clock and no randomness.
      'no-restricted-properties': [
        'error',
        { object: 'Math', property: 'random', message: 'The compiler is deterministic.' },
        { object: 'Date', property: 'now', message: 'The compiler has no clock.' },
      ],
      'no-restricted-globals': [
        'error',
        banned('Date', 'The compiler has no clock.'),
        banned('process', 'The compiler does no I/O.'),
        banned('console', 'The compiler does no I/O: return a diagnostic.'),
      ],
    },
  },
  {
    files: ['extension/contracts/**/*.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector:
            ':matches(VariableDeclaration, FunctionDeclaration, ClassDeclaration, TSEnumDeclaration)',
          message: 'extension/contracts holds types only.',
        },
      ],
    },
  },
  {
    files: ['runner/core/**/*.ts'],
    rules: {
      'no-restricted-globals': [
        'error',
        banned('navigator', 'The GPU object is injected.'),
        banned('process', 'runner/core runs in browsers too.'),
      ],
    },
  },
  {
    files: ['extension/extension.ts', 'extension/extension.web.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ClassDeclaration',
          message: 'extension.ts only wires: put the class under services/ or features/.',
        },
      ],
      'max-lines': ['error', { max: 200, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unused-expressions': 'off',
      // Mocha's describe and it take async callbacks.
      '@typescript-eslint/no-floating-promises': 'error',
    },
  },
  {
    files: ['**/*.mjs', '**/*.cjs'],
    languageOptions: {
      globals: Object.fromEntries(
        [
          'process console Buffer require module URL URLSearchParams fetch setTimeout clearTimeout setInterval',
          'clearInterval setImmediate performance AbortController AbortSignal TextDecoder TextEncoder',
        ]
          .join(' ')
          .split(' ')
          .map((name) => [name, 'readonly']),
      ),
    },
  },
);
