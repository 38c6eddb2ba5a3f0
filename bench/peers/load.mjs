// Loads the peers from this folder's node_modules, wherever the caller's own bundle lies.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** The build with the native WebGPU execution provider; the older one (JSEP) is `onnxruntime-web/all`. */
export const onnxruntime = () => import('onnxruntime-web/webgpu');

export const jax = () => import('@jax-js/jax');

/** Its ES modules can't be resolved by Node: CommonJS then. */
export const tfjs = () => {
  const core = require('@tensorflow/tfjs-core');
  require('@tensorflow/tfjs-backend-webgpu');
  return Promise.resolve(core);
};

/** @param {string} name @returns {Promise<string>} the installed version of a package */
export async function versionOf(name) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return String(JSON.parse(await readFile(file, 'utf8')).version);
}
