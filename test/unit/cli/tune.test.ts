/**
 * `tune` and what uses its records, from outside: files, flags, notes, exit codes. What needs a GPU is in
 * test/gpu/tune.test.ts.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { compile } from '../../../compiler';
import { tuningPlace } from '../../../cli/tuningFile';
import { cli } from '../../harness/cli';
import { keyOfRecord, type KernelRecord, recordsText } from '../../../tuner/records';

const manifest = await readFile('package.json', 'utf8');
const { version } = JSON.parse(manifest) as { version: string };
const CHAIN = 'input x: f32[64, 256]\ny = exp(tanh(x) * 2.0)\noutput y\n';

function record(more: Partial<KernelRecord> = {}): KernelRecord {
  const bytes = new TextEncoder().encode(CHAIN);
  const [kernel] = compile({ file: 'a.fuse', bytes }).result.after.kernels;
  return {
    kind: 'kernel',
    structure: kernel?.structure ?? '',
    adapter: 'maker / model / Some GPU',
    version,
    label: 'tanh + mul + exp',
    files: ['sub/chain.fuse'],
    dims: {},
    default: { workgroup: 64, tile: 4 },
    defaultUs: 13,
    best: { params: { workgroup: 128, tile: 2 }, us: 10, defaultUs: 13 },
    tried: {},
    ...more,
  };
}

interface Explained {
  readonly kernels: readonly { readonly tuned?: unknown; readonly schedule: unknown }[];
  readonly diagnostics: readonly {
    readonly code: string;
    readonly severity: string;
    readonly message: string;
  }[];
}

describe('fusion-lens tune', function () {
  this.timeout(60_000);
  let folder = '';
  let chain = '';
  let tuning = '';
  const keep = (...records: KernelRecord[]): Promise<void> =>
    writeFile(tuning, recordsText(new Map(records.map((r) => [keyOfRecord(r), r]))));
  const explained = async (...flags: string[]): Promise<Explained> => {
    const r = await cli(['explain', chain, '--json', ...flags]);
    assert.equal(r.code, 0, r.err);
    return JSON.parse(r.out) as Explained;
  };

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'fusion-lens-tune-'));
    chain = path.join(folder, 'sub', 'chain.fuse');
    await mkdir(path.join(folder, 'sub'));
    await mkdir(path.join(folder, '.git'));
    await mkdir(path.join(folder, '.fusion-lens'));
    tuning = path.join(folder, '.fusion-lens', 'tuning.json');
    await writeFile(chain, CHAIN);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('keeps records in the nearest folder that has them, in the repository, or beside the file', async () => {
    assert.deepEqual(tuningPlace(chain), { path: tuning, file: 'sub/chain.fuse' });
    const own = path.join(folder, 'sub', '.fusion-lens');
    await mkdir(own);
    assert.deepEqual(tuningPlace(chain), {
      path: path.join(own, 'tuning.json'),
      file: 'chain.fuse',
    });
    await rm(own, { recursive: true });
    const alone = await mkdtemp(path.join(tmpdir(), 'fusion-lens-alone-'));
    assert.equal(
      tuningPlace(path.join(alone, 'a.fuse')).path,
      path.join(alone, '.fusion-lens', 'tuning.json'),
    );
    await rm(alone, { recursive: true });
  });

  it('has its records used and shown by explain and kernels, unless told not to', async () => {
    await keep(record());
    const [k] = (await explained()).kernels;
    assert.deepEqual(k?.schedule, { workgroup: 128, tile: 2 });
    assert.deepEqual(k.tuned, {
      params: { workgroup: 128, tile: 2 },
      medianUs: 10,
      defaultUs: 13,
      adapter: 'Some GPU',
    });
    const text = await cli(['explain', chain]);
    assert.match(
      text.out,
      /k0: tuned: workgroup = 128, tile = 2 \(1\.30× on Some GPU\)|k0: tuned: tile = 2, workgroup = 128 \(1\.30× on Some GPU\)/,
    );
    assert.match((await cli(['kernels', chain])).out, /@workgroup_size\(128/);
    const [plain] = (await explained('--no-tuning')).kernels;
    assert.equal(plain?.tuned, undefined);
    assert.match((await cli(['kernels', chain, '--no-tuning'])).out, /@workgroup_size\(64/);
  });

  it('has records that no longer fit told about', async () => {
    const notes = async (...flags: string[]): Promise<string> => {
      const { kernels, diagnostics } = await explained(...flags);
      assert.equal(kernels[0]?.tuned, undefined);
      return diagnostics.map((d) => `${d.severity} ${d.code} ${d.message}`).join('\n');
    };
    await keep(record({ version: '0.0.1' }));
    assert.match(await notes(), /info TUNING_IGNORED .*version 0\.0\.1 measured it/);
    await keep(record({ structure: 'another' }));
    assert.match(
      await notes(),
      /info TUNING_IGNORED .*belongs to a kernel that its plan doesn’t have/,
    );
    await keep(record({ structure: 'another', files: ['else.fuse'] }));
    assert.equal(await notes(), '');
    await keep(record(), record({ adapter: 'x / y / Other' }));
    assert.match(await notes(), /records of 2 adapters/);
    assert.equal((await explained('--adapter', 'other')).kernels[0]?.tuned !== undefined, true);
  });

  it('never writes over a file that it can’t read', async () => {
    const broken = '{ "schema": "fusion-lens/tuning@1", <<<<<<< HEAD';
    await writeFile(tuning, broken);
    const { diagnostics } = await explained();
    assert.deepEqual(
      diagnostics.map((d) => `${d.severity} ${d.code}`),
      ['warning TUNING_FILE'],
    );
    const r = await cli(['tune', chain, '--seconds', '1']);
    assert.equal(r.code, 1);
    assert.match(r.err, /left as they are: it is no JSON/);
    assert.equal(await readFile(tuning, 'utf8'), broken);
  });

  it('refuses wrong usage and files that can’t run', async () => {
    assert.equal((await cli(['tune'])).code, 2);
    assert.equal((await cli(['tune', chain, '--seconds', '0'])).code, 2);
    assert.equal((await cli(['tune', chain, '--dim', 'Z=3'])).code, 2);
    const wrong = path.join(folder, 'wrong.fuse');
    await writeFile(wrong, 'input x: f32[4]\ny = nonsense(x)\noutput y\n');
    const r = await cli(['tune', wrong]);
    assert.equal(r.code, 1);
    assert.match(r.err, /can't run/);
    assert.equal((await cli(['tune', path.join(folder, 'absent.fuse')])).code, 1);
  });
});
