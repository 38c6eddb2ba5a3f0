// An ESLint rule that enforces which folder may import which: the dependency rules of the project.
//
// A *layer* is a folder with rules. Its longest matching prefix decides for a file. Every import is
// resolved to the layer it lands in, so the rule can't be fooled by the number of `../`.

import path from 'node:path';
import { root } from './root.mjs';

/**
 * @typedef {object} Layer
 * @property {string} folder      path from the repository root
 * @property {string[]} values    folders whose values (and types) it may import; itself is implied
 * @property {string[]} types     folders of which it may import types alone
 * @property {RegExp | null} packages  packages and built-in modules it may import; null: none
 * @property {RegExp} [typePackages]   packages of which it may import types alone
 * @property {boolean} [typesOnly]     it may hold and import nothing but types
 */

/** @type {Layer[]} */
export const layers = [
  { folder: 'compiler', values: [], types: [], packages: null },
  {
    folder: 'extension/contracts',
    values: [],
    types: ['compiler', 'runner/core', 'tuner'],
    packages: null,
    typesOnly: true,
  },
  {
    folder: 'runner/core',
    values: ['compiler'],
    types: ['extension/contracts'],
    packages: null,
  },
  {
    folder: 'runner/node',
    values: ['runner/core', 'compiler'],
    types: ['extension/contracts'],
    packages: /^(node:|webgpu$)/,
  },
  {
    folder: 'runner/browser',
    values: ['runner/core'],
    types: ['compiler', 'extension/contracts'],
    packages: null,
  },
  { folder: 'tuner', values: ['compiler', 'runner/core'], types: [], packages: null },
  {
    folder: 'webview',
    values: ['runner/browser', 'runner/core'],
    types: ['compiler', 'tuner', 'extension/contracts'],
    packages: /^(d3|@vscode\/webview-ui-toolkit)/,
  },
  {
    folder: 'extension',
    values: ['compiler', 'tuner', 'runner/node', 'runner/core'],
    types: ['extension/contracts', 'webview'],
    packages: /^(vscode$|node:)/,
  },
  {
    folder: 'cli',
    values: ['compiler', 'tuner', 'runner/node', 'runner/core', 'webview/layout', 'webview/render'],
    types: ['extension/contracts'],
    packages: /^node:/,
  },
];

/** @param {string} file @param {string} folder */
const within = (file, folder) => file === folder || file.startsWith(`${folder}/`);

/** @param {string} file path from the root, with forward slashes */
const layerOf = (file) =>
  layers
    .filter((layer) => within(file, layer.folder))
    .sort((a, b) => b.folder.length - a.folder.length)[0];

/** @type {import('eslint').Rule.RuleModule} */
export const layersRule = {
  meta: {
    type: 'problem',
    docs: { description: 'Enforce which folder may import which.' },
    schema: [],
  },
  create(context) {
    const file = path.relative(root, context.filename).split(path.sep).join('/');
    const layer = layerOf(file);
    if (!layer) return {};

    /**
     * @param {import('estree').Node} node
     * @param {unknown} source
     * @param {boolean} typeOnly
     */
    function checkImport(node, source, typeOnly) {
      if (typeof source !== 'string') return;
      if (layer.typesOnly && !typeOnly) {
        context.report({ node, message: `${layer.folder} holds types only: use "import type".` });
        return;
      }
      if (!source.startsWith('.')) {
        const allowed =
          layer.packages?.test(source) || (typeOnly && layer.typePackages?.test(source));
        if (!allowed)
          context.report({ node, message: `${layer.folder} may not import "${source}".` });
        return;
      }
      const target = path.posix.normalize(path.posix.join(path.posix.dirname(file), source));
      // The folder itself is allowed, but not a stricter or looser layer nested in it.
      if (layerOf(target) === layer) return;
      const may = (/** @type {string[]} */ folders) => folders.some((f) => within(target, f));
      if (may(layer.values) || (typeOnly && may(layer.types))) return;
      context.report({
        node,
        message: may(layer.types)
          ? `${layer.folder} may import only types from "${target}": use "import type".`
          : `${layer.folder} may not import from "${target}".`,
      });
    }

    /** @param {any} node an import or export declaration of the TypeScript parser */
    const isTypeOnly = (node) =>
      node.importKind === 'type' ||
      node.exportKind === 'type' ||
      (node.specifiers?.length > 0 &&
        node.specifiers.every(
          (/** @type {any} */ specifier) =>
            specifier.importKind === 'type' || specifier.exportKind === 'type',
        ));

    return {
      ImportDeclaration: (node) => checkImport(node, node.source.value, isTypeOnly(node)),
      ExportAllDeclaration: (node) => checkImport(node, node.source.value, isTypeOnly(node)),
      ExportNamedDeclaration: (node) => {
        if (node.source) checkImport(node, node.source.value, isTypeOnly(node));
      },
      ImportExpression: (node) =>
        checkImport(node, node.source.type === 'Literal' ? node.source.value : undefined, false),
    };
  },
};
