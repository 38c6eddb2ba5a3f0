// Copies the pictures of the README from where the end-to-end tests leave them (dist/screenshots)
// to media/screenshots, and refuses ones that are too large to be committed.
//
//   npm run test:e2e -- -g pictures && node scripts/pictures.mjs

import { copyFileSync, existsSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { root } from './root.mjs';

const pictures = ['softmax-dark.png', 'squeezenet-light.png'];
const limit = 250 * 1024;

const target = path.join(root, 'media/screenshots');
mkdirSync(target, { recursive: true });
for (const name of pictures) {
  const source = path.join(root, 'dist/screenshots', `readme-${name}`);
  const problem = !existsSync(source)
    ? 'is missing: run npm run test:e2e -- -g pictures'
    : statSync(source).size > limit
      ? `has ${Math.ceil(statSync(source).size / 1024)} KiB, over the limit of ${limit / 1024}`
      : undefined;
  if (problem === undefined) {
    copyFileSync(source, path.join(target, name));
    console.log(`media/screenshots/${name}`);
  } else {
    console.error(`${path.relative(root, source)} ${problem}`);
    process.exitCode = 1;
  }
}
