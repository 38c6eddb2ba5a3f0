/**
 * The built program, from outside: exit codes, what goes to which stream, files it writes.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { profileFile, writeProfile } from '../../../runner/node/profileCache';
import { cli, program } from '../../harness/cli';
import { FLOAT, model, node, value } from '../onnx/encoder';

interface Explained {
  readonly schema: string;
  readonly format: string;
  readonly dims: Record<string, number>;
  readonly before: { readonly kernels: number };
  readonly after: { readonly kernels: number };
  readonly kernels: readonly { readonly nodes: readonly string[] }[];
  readonly diagnostics: readonly { readonly code: string }[];
  readonly decisions: readonly { readonly fused: boolean }[];
  readonly expectations: readonly { readonly held: boolean }[];
}

describe('fusion-lens', function () {
  this.timeout(60_000);
  let folder = '';
  const file = (name: string): string => path.join(folder, name);

  before(async () => {
    assert(existsSync(program), 'dist/cli.js is missing: run "npm run build" first');
    folder = await mkdtemp(path.join(tmpdir(), 'fusion-lens-'));
    await writeFile(
      file('chain.fuse'),
      'dim B = 8\ninput x: f32[B, 4]\ny = exp(relu(x))\noutput y\nexpect kernels == 1\n',
    );
    await writeFile(file('wrong.fuse'), 'input x: f32[4]\ny = nonsense(x)\noutput y\n');
    await writeFile(
      file('failing.fuse'),
      'input x: f32[4]\ny = exp(x)\noutput y\nexpect kernels == 7\n',
    );
    await writeFile(
      file('chain.onnx'),
      model({
        inputs: [value('x', FLOAT, ['N', 4])],
        nodes: [node('Relu', ['x'], ['h']), node('Exp', ['h'], ['y'])],
        outputs: [value('y', FLOAT, ['N', 4])],
      }),
    );
    await writeFile(file('damaged.onnx'), Uint8Array.from([58, 200, 1, 10]));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('explains both formats as JSON, alone on standard output', async () => {
    for (const name of ['chain.fuse', 'chain.onnx']) {
      const r = await cli([
        'explain',
        file(name),
        '--json',
        '--dim',
        name.endsWith('x') ? 'N=3' : 'B=3',
      ]);
      assert.equal(r.code, 0, r.err);
      assert.equal(r.err, '');
      const e = JSON.parse(r.out) as Explained;
      assert.equal(e.schema, 'fusion-lens/explain@1');
      assert.equal(`.${e.format}`, path.extname(name));
      assert.deepEqual(Object.values(e.dims), [3]);
      assert.equal(e.before.kernels, 2);
      assert.equal(e.after.kernels, 1);
      assert.equal(e.kernels[0]?.nodes.length, 2);
      assert(e.decisions.some((d) => d.fused));
    }
  });

  it('tells values apart whose name was taken again', async () => {
    await writeFile(
      file('again.fuse'),
      'input x: f32[512, 512]\nx = x @ x\nx = relu(x)\nx = x @ x.T\nx -= 1\noutput x\nnofuse x -> x\n',
    );
    const r = await cli(['explain', file('again.fuse')]);
    assert.match(r.out, /x \(relu, line 3\) → x \(matmul, line 4\)/);
    assert.doesNotMatch(r.out, /x → x/);
  });

  it('exits with 1 for faults of the input and expectations that failed', async () => {
    for (const [name, code] of [
      ['wrong.fuse', undefined],
      ['damaged.onnx', 'MALFORMED'],
    ] as const) {
      const r = await cli(['explain', file(name), '--json']);
      assert.equal(r.code, 1, name);
      const e = JSON.parse(r.out) as Explained;
      assert(e.diagnostics.length > 0);
      if (code !== undefined) assert.equal(e.diagnostics[0]?.code, code);
    }
    const failing = await cli(['explain', file('failing.fuse'), '--json']);
    assert.equal(failing.code, 1);
    assert.deepEqual(
      (JSON.parse(failing.out) as Explained).expectations.map((e) => e.held),
      [false],
    );
    const missing = await cli(['explain', file('missing.onnx'), '--json']);
    assert.deepEqual([missing.code, missing.out], [1, '']);
    assert.match(missing.err, /there is no such file/);
  });

  it('exits with 2 for wrong usage, and says what was meant', async () => {
    for (const [args, words] of [
      [[], /a command is missing/],
      [['explian', 'x'], /did you mean explain\?/],
      [['explain', file('chain.fuse'), '--jsn'], /did you mean --json\?/],
      [['explain', file('chain.fuse'), '--dim', 'C=2'], /no symbolic size "C": it has B/],
      [['explain', file('chain.fuse'), '--device', 'discret'], /did you mean discrete\?/],
      [['explain'], /explain needs a FILE/],
      [['run', file('chain.fuse')], /run needs --inputs DIR/],
    ] as const) {
      const r = await cli(args);
      assert.deepEqual([r.code, r.out], [2, ''], args.join(' '));
      assert.match(r.err, words);
    }
  });

  it('shows help and the version', async () => {
    const all = await cli(['--help']);
    assert.equal(all.code, 0);
    for (const name of ['explain', 'kernels', 'profile', 'run', 'conformance']) {
      assert.match(all.out, new RegExp(`^  ${name} `, 'm'));
      const one = await cli([name, '--help']);
      assert.equal(one.code, 0);
      assert.match(one.out, /--json/);
    }
    assert.match((await cli(['--version'])).out, /^\d+\.\d+\.\d+\n$/);
  });

  it('estimates for what calibrate kept, or says how to get it', async () => {
    const cache = file('profiles');
    const args = ['explain', file('chain.fuse'), '--device', 'measured'];
    const none = await cli(args, { env: { FUSION_LENS_CACHE: cache } });
    assert.equal(none.code, 2);
    assert.match(none.err, /nothing has been measured yet: "fusion-lens calibrate"/);
    const adapter = { vendor: 'v', architecture: 'a', description: 'Card' };
    const profile = { ...DEFAULT_DEVICE, name: 'measured', source: 'measured' as const };
    await writeProfile(profileFile(adapter, cache), adapter, { ...profile, launchUs: 777 });
    const kept = await cli(args, { env: { FUSION_LENS_CACHE: cache } });
    assert.equal(kept.code, 0, kept.err);
    assert.match(kept.out, /measured \(measured profile\)/);
    assert.match(kept.out, /777 µs/);
    // Of two adapters one must be named; its file can be.
    const other = { ...adapter, description: 'Other card' };
    await writeProfile(profileFile(other, cache), other, { ...profile, launchUs: 555 });
    const both = await cli(args, { env: { FUSION_LENS_CACHE: cache } });
    assert.equal(both.code, 2);
    assert.match(both.err, /measured profiles of 2 adapters; name one/);
    const named = await cli([...args.slice(0, 3), profileFile(other, cache)]);
    assert.match(named.out, /555 µs/);
    await writeFile(profileFile(other, cache), '{"schema":"fusion-lens/measured-device"}');
    const old = await cli([...args.slice(0, 3), profileFile(other, cache)]);
    assert.equal(old.code, 2);
    assert.match(old.err, /is not used: it is of version none/);
  });

  it('takes no file where it measures the adapter', async () => {
    const r = await cli(['calibrate', 'model.fuse']);
    assert.equal(r.code, 2);
    assert.match(r.err, /calibrate takes no file, but there is "model\.fuse"/);
    assert.match((await cli(['calibrate', '--device-file', 'x.txt'])).err, /ends in \.json/);
    assert.match(
      (await cli(['calibrate', '--help'])).out,
      /Usage: fusion-lens calibrate \[flags\]/,
    );
  });

  it('paints only when asked, and never with NO_COLOR', async () => {
    const args = ['explain', file('chain.fuse')];
    const escape = String.fromCharCode(27);
    assert(!(await cli(args)).out.includes(escape));
    assert((await cli(args, { env: { FORCE_COLOR: '1' } })).out.includes(escape));
    assert(!(await cli(args, { env: { FORCE_COLOR: '1', NO_COLOR: '1' } })).out.includes(escape));
  });

  it('writes kernels to files, names them, and replaces none unasked', async () => {
    const out = file('out');
    const first = await cli(['kernels', file('chain.fuse'), '-o', out]);
    assert.deepEqual([first.code, first.out], [0, ''], first.err);
    assert.deepEqual(await readdir(out), ['k0.wgsl']);
    assert.match(first.err, /wrote .*k0\.wgsl/);
    const code = await readFile(path.join(out, 'k0.wgsl'), 'utf8');
    assert.match(code, /@compute/);
    await writeFile(path.join(out, 'k0.wgsl'), 'mine');
    const again = await cli(['kernels', file('chain.fuse'), '-o', out]);
    assert.equal(again.code, 1);
    assert.match(again.err, /nothing was written, because there is already .*k0\.wgsl/);
    assert.equal(await readFile(path.join(out, 'k0.wgsl'), 'utf8'), 'mine');
    assert.equal((await cli(['kernels', file('chain.fuse'), '-o', out, '--force'])).code, 0);
    assert.equal(await readFile(path.join(out, 'k0.wgsl'), 'utf8'), code);
  });

  it('says where it can’t write, and ends', async () => {
    const taken = file('taken');
    await writeFile(taken, 'mine');
    for (const out of [taken, path.join(taken, 'below'), '/proc/fusion-lens/kernels']) {
      const r = await cli(['kernels', file('chain.fuse'), '-o', out]);
      assert.deepEqual([r.code, r.out], [1, ''], out);
      assert.match(
        r.err,
        /^error: can't write to .*: (.*taken is a file, not a folder|there is no)/,
      );
    }
    assert.equal(await readFile(taken, 'utf8'), 'mine');
  });

  it('ends quietly when its reader goes away', async () => {
    const child = spawn(process.execPath, [program, 'kernels', file('chain.fuse'), '--json']);
    child.stdout.destroy();
    let err = '';
    child.stderr.on('data', (d: Buffer) => (err += d.toString()));
    await new Promise((resolve) => child.on('close', resolve));
    assert.equal(err, '');
  });
});
