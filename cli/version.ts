/** This program's version, from the manifest: the bundle lies in `dist/`, beside the manifest's folder. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

export function programVersion(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(path.join(__dirname, '..', 'package.json'), 'utf8'),
  );
  const version =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest
      ? manifest.version
      : undefined;
  return typeof version === 'string' ? version : 'unknown';
}
