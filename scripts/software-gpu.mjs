// A GPU for machines without one: SwiftShader (a Vulkan driver on the CPU) and a Vulkan loader for
// Dawn, and a headless Chromium for the tests. All come from the npm package @sparticuz/chromium
// and are unpacked once into .vscode-test/chromium-138.
//
//   node scripts/software-gpu.mjs    unpacks, and says which adapter is found without and with it

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createReadStream, createWriteStream } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { runCommand } from './processes.mjs';
import { root } from './root.mjs';

const archives = path.join(root, 'node_modules/@sparticuz/chromium/bin');
const folder = path.join(root, '.vscode-test/chromium-138');

/**
 * @typedef {object} SoftwareGpu
 * @property {string | undefined} chromiumPath  a Chromium that can be started headless, if any
 * @property {Record<string, string>} chromiumEnv  what this Chromium needs in its environment
 * @property {Record<string, string>} env  what Dawn needs to find SwiftShader; empty if there is none
 * @property {string} [problem]  why something of the above is missing, in words for a person
 */

/** @returns {Promise<SoftwareGpu>} */
export async function ensureSoftwareGpu() {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return {
      chromiumPath: systemChrome(),
      chromiumEnv: {},
      env: {},
      problem:
        `There is no bundled software GPU for ${process.platform} ${process.arch}: the GPU of ` +
        'this machine is used, and a Chrome that is installed (or named by CHROME_PATH).',
    };
  }
  if (!existsSync(folder)) await unpack();
  const vulkan = path.join(folder, 'vulkan');
  return {
    chromiumPath: process.env.CHROME_PATH ?? path.join(folder, 'chromium'),
    chromiumEnv: { ...libraryEnv(), ...fontEnv() },
    env: {
      FUSION_LENS_SOFTWARE_GPU: '1',
      VK_ICD_FILENAMES: path.join(vulkan, 'vk_swiftshader_icd.json'),
      LD_LIBRARY_PATH: joinPaths(vulkan, process.env.LD_LIBRARY_PATH),
    },
  };
}

/**
 * What to add to the environment of a process that uses Dawn: nothing where there is a real GPU,
 * else the software GPU. FUSION_LENS_GPU=software or =hardware decides without looking.
 * @returns {Promise<Record<string, string>>}
 */
export async function gpuEnvironment() {
  const choice = process.env.FUSION_LENS_GPU;
  if (choice === 'hardware' || process.env.FUSION_LENS_SOFTWARE_GPU === '1') return {};
  if (choice !== 'software') {
    const adapter = await probeAdapter();
    if (adapter && !adapter.software) return {};
  }
  const { env, problem } = await ensureSoftwareGpu();
  if (problem) console.warn(problem);
  return env;
}

/**
 * What Dawn needs to use lavapipe, Mesa's Vulkan driver on the CPU, for each place where one may be.
 * FUSION_LENS_LAVAPIPE names an ICD file elsewhere.
 * @returns {Promise<Record<string, string>[]>}
 */
export async function lavapipeEnvironments() {
  const named = process.env.FUSION_LENS_LAVAPIPE;
  const folders = ['/usr/share', '/usr/local/share', '/etc'].map((f) => `${f}/vulkan/icd.d`);
  const installed = folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => path.join(folder, name)))
    .filter((file) => /lvp_icd.*\.json$/.test(file));
  const files = named ? [named] : installed;
  // The loader comes with the other software driver, where it is to be had.
  const { env } = files.length > 0 ? await ensureSoftwareGpu() : { env: {} };
  return files.map((file) => ({ ...env, VK_ICD_FILENAMES: file }));
}

/**
 * Asks Dawn for its adapter in a child process: a broken driver may hang or crash.
 * @param {Record<string, string>} [env]
 * @returns {Promise<{description: string, software: boolean} | undefined>}
 */
export async function probeAdapter(env = {}) {
  const program = `
    import { create } from 'webgpu';
    const { info } = (await create([]).requestAdapter()) ?? {};
    const names = info && [info.vendor, info.architecture, info.device, info.description];
    const description = names?.filter(Boolean).join(' ');
    const software = /swiftshader|llvmpipe|lavapipe|warp|basic render/i.test(description ?? '');
    console.log('adapter:' + JSON.stringify(info ? { description, software } : null));
    process.exit(0);`;
  const { output } = await runCommand(
    process.execPath,
    ['--input-type=module', '--eval', program],
    { cwd: root, env, timeoutMs: 20_000, quiet: true },
  );
  const line = output.split('\n').find((text) => text.startsWith('adapter:'));
  return (line && JSON.parse(line.slice('adapter:'.length))) || undefined;
}

/**
 * Unpacks into a folder of its own and renames it into place, so that a process that runs at the
 * same time sees all or nothing.
 */
async function unpack() {
  if (!existsSync(archives))
    throw new Error('The package @sparticuz/chromium is not installed: run "npm ci" first.');
  console.error('Unpacking Chromium and the software GPU (once)…');
  await mkdir(path.dirname(folder), { recursive: true });
  const draft = await mkdtemp(`${folder}.`);
  try {
    const chromium = path.join(draft, 'chromium');
    await decompress('chromium.br', chromium);
    await chmod(chromium, 0o755);
    for (const [archive, target] of [
      ['swiftshader.tar.br', '.'],
      ['al2023.tar.br', '.'],
      ['fonts.tar.br', 'fonts'],
    ]) {
      const tar = path.join(draft, 'archive.tar');
      await decompress(archive, tar);
      await mkdir(path.join(draft, target), { recursive: true });
      const args = ['-xf', tar, '--no-same-owner', '-C', path.join(draft, target)];
      const { code, output } = await runCommand('tar', args, { quiet: true });
      if (code !== 0) throw new Error(`tar could not unpack ${archive}: ${output}`);
      await rm(tar);
    }
    // Dawn gets a folder with the Vulkan loader alone, so that nothing else is taken from here.
    const vulkan = path.join(draft, 'vulkan');
    await mkdir(vulkan);
    for (const name of ['libvulkan.so.1', 'libvk_swiftshader.so', 'vk_swiftshader_icd.json'])
      await symlink(`../${name}`, path.join(vulkan, name));
    await writeFile(
      path.join(draft, 'fonts/fonts.conf'),
      `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">.</dir><cachedir prefix="relative">cache</cachedir></fontconfig>
`,
    );
    await rename(draft, folder).catch((error) => {
      // Another process was quicker.
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** @param {string} archive @param {string} target */
const decompress = (archive, target) =>
  pipeline(
    createReadStream(path.join(archives, archive)),
    createBrotliDecompress({ chunkSize: 1 << 20 }),
    createWriteStream(target),
  );

/** The system libraries of the package, where the machine lacks its own (NSS and so on). */
function libraryEnv() {
  const starts = (/** @type {Record<string, string>} */ env) =>
    spawnSync(path.join(folder, 'chromium'), ['--version'], {
      env: { ...process.env, ...env },
      timeout: 10_000,
    }).status === 0;
  const own = {
    LD_LIBRARY_PATH: joinPaths(path.join(folder, 'lib'), process.env.LD_LIBRARY_PATH),
  };
  return starts({}) ? {} : own;
}

/** @returns {Record<string, string>} the package's fonts, where the machine has none at all */
function fontEnv() {
  const places = ['/usr/share/fonts', '/usr/local/share/fonts', path.join(homedir(), '.fonts')];
  const hasFonts = places.some((place) => existsSync(place) && readdirSync(place).length > 0);
  return hasFonts ? {} : { FONTCONFIG_FILE: path.join(folder, 'fonts/fonts.conf') };
}

/** @param {...(string | undefined)} parts */
const joinPaths = (...parts) => parts.filter(Boolean).join(path.delimiter);

/** @returns {string | undefined} a Chrome, Chromium or Edge that is installed here */
export function systemChrome() {
  const candidates = [
    process.env.CHROME_PATH,
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
    'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
    'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe',
    ...['google-chrome', 'google-chrome-stable', 'chromium', 'chromium-browser'].map(
      (name) => `/usr/bin/${name}`,
    ),
  ];
  return candidates.find((candidate) => candidate && existsSync(candidate));
}

// Not when it is part of a bundle.
if (path.basename(process.argv[1] ?? '') === 'software-gpu.mjs') {
  const { chromiumPath, env, problem } = await ensureSoftwareGpu();
  if (problem) console.log(problem);
  console.log(`Chromium: ${chromiumPath ?? 'none'}`);
  console.log(`Adapter of this machine: ${(await probeAdapter())?.description ?? 'none'}`);
  console.log(`Software adapter: ${(await probeAdapter(env))?.description ?? 'none'}`);
}
