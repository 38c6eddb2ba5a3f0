/**
 * The process of one contestant: `node benchPeer.mjs NAME`. It answers requests (protocol.ts) one at a
 * time and rests in between, so that the others have the machine.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { letDawnSleep, loadDawn } from '../../runner/node/dawn';
import { Watcher } from './counting';
import { Unsupported, type Contestant, type Prepared } from './contestants/contestant';
import { COPY_NOTE, Floor } from './contestants/floor';
import { JaxJs } from './contestants/jax';
import { OnnxRuntime } from './contestants/onnxruntime';
import { Ours } from './contestants/ours';
import { Tensorflow } from './contestants/tfjs';
import {
  CONTESTANTS,
  type Answers,
  type ContestantName,
  type Expected,
  type FromContestant,
  type Opened,
  type PreparedReport,
  type Rates,
  type Request,
  type Timed,
  type ToContestant,
} from './protocol';
import { allContents, compileWorkload, signatureOf, type Workload } from './workloads';

function contestantOf(name: ContestantName): Contestant {
  switch (name) {
    case 'fused':
    case 'unfused':
      return new Ours(name);
    case 'onnxruntime':
      return new OnnxRuntime();
    case 'tfjs':
      return new Tensorflow();
    case 'jax':
      return new JaxJs();
    case 'floor':
      return new Floor();
  }
}

class Stage {
  private readonly watcher = new Watcher();
  private prepared: Prepared | undefined;
  /** What the GPU complained about since the last look. */
  private complaint: string | undefined;
  private readonly listened = new WeakSet<GPUDevice>();

  constructor(private readonly contestant: Contestant) {}

  async answer(r: Request): Promise<Answers[Request['kind']]> {
    switch (r.kind) {
      case 'open':
        return this.open();
      case 'prepare':
        return this.prepare(r.workload, r.expected);
      case 'time':
        return this.time(r.repeats);
      case 'release':
        await this.prepared?.release();
        this.prepared = undefined;
        return null;
      case 'rates':
        return this.rates();
    }
  }

  private async open(): Promise<Opened> {
    letDawnSleep();
    const gpu = await loadDawn();
    this.watcher.install();
    // What libraries look for in a browser.
    const navigator = {
      gpu,
      userAgent: 'Node',
      platform: process.platform,
      hardwareConcurrency: 1,
    };
    Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true });
    const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) throw new Error('No GPU adapter was found.');
    const { vendor, architecture, device, description } = adapter.info;
    const text = [vendor, architecture, description || device].filter((s) => s !== '').join(' ');
    const version = await this.contestant.open(gpu);
    return {
      adapter: text,
      software: /swiftshader|llvmpipe|lavapipe|warp|basic render/i.test(text),
      version,
    };
  }

  private async prepare(workload: Workload, expected: Expected): Promise<PreparedReport> {
    const bytes =
      workload.kind === 'model' ? new Uint8Array(await readFile(workload.file)) : undefined;
    const signature = signatureOf(compileWorkload(workload, bytes));
    const contents = allContents(signature);
    const start = performance.now();
    const prepared = await this.contestant.prepare({ workload, bytes, signature, contents });
    this.prepared = prepared;
    this.listen();
    await prepared.run();
    await this.fence();
    const setupMs = performance.now() - start;
    this.watcher.start();
    await prepared.run();
    await this.fence();
    const { dispatches, boundBytes } = this.watcher.stop();
    const outputs = await prepared.outputs();
    if (this.complaint !== undefined) throw new Error(`WebGPU: ${this.complaint}`);
    const isCopy = prepared.note === COPY_NOTE;
    const error = isCopy
      ? copyError(outputs[0] ?? [], contents.get('x') ?? [])
      : errorOf(outputs, expected);
    const tolerance = isCopy ? 0 : Math.max(...expected.outputs.map((o) => o.tolerance));
    return {
      setupMs,
      dispatches,
      boundBytes,
      maxRelErr: error,
      tolerance,
      ...(prepared.note === undefined ? {} : { note: prepared.note }),
    };
  }

  private async time(repeats: number): Promise<Timed> {
    const { prepared } = this;
    if (!prepared) throw new Error('nothing is prepared');
    const start = performance.now();
    for (let i = 0; i < repeats; i++) await prepared.run();
    const submitted = performance.now();
    await this.fence();
    const end = performance.now();
    if (this.complaint !== undefined) throw new Error(`WebGPU: ${this.complaint}`);
    return { ms: end - start, submitMs: submitted - start };
  }

  private async rates(): Promise<Rates> {
    if (!(this.contestant instanceof Floor)) throw new Unsupported('only the floor has rates');
    return this.contestant.rates();
  }

  private async fence(): Promise<void> {
    await this.watcher.device.queue.onSubmittedWorkDone();
  }

  private listen(): void {
    const { device } = this.watcher;
    this.complaint = undefined;
    if (this.listened.has(device)) return;
    this.listened.add(device);
    device.addEventListener('uncapturederror', (e) => {
      if ('error' in e) this.complaint ??= e.error.message;
    });
  }
}

function copyError(got: ArrayLike<number>, x: ArrayLike<number>): number {
  for (let i = 0; i < x.length; i++) if (got[i] !== x[i]) return Infinity;
  return 0;
}

/** Elements of the reference that are compared at a time. */
const PIECE = 2 ** 21;

/** The largest error over all outputs; infinite where one is missing or no number. */
function errorOf(outputs: readonly ArrayLike<number>[], expected: Expected): number {
  if (outputs.length !== expected.outputs.length) return Infinity;
  let worst = 0;
  for (const [i, e] of expected.outputs.entries()) {
    const got = outputs[i] ?? [];
    if (got.length !== e.elements) return Infinity;
    const file = openSync(e.file, 'r');
    try {
      for (let at = 0; at < e.elements; at += PIECE) {
        const want = new Float64Array(Math.min(PIECE, e.elements - at));
        if (readSync(file, want, { position: 8 * at }) !== want.byteLength)
          throw new Error(`${e.file} is too short`);
        for (let k = 0; k < want.length; k++) {
          const w = want[k] ?? 0;
          const rel = Math.abs((got[at + k] ?? NaN) - w) / Math.max(Math.abs(w), e.scale, 1e-30);
          if (!(rel <= worst)) worst = rel === rel ? rel : Infinity;
        }
      }
    } finally {
      closeSync(file);
    }
  }
  return worst;
}

function main(): void {
  const name = CONTESTANTS.find((c) => c === process.argv[2]);
  if (!name) throw new Error(`no contestant is called ${process.argv[2] ?? ''}`);
  const stage = new Stage(contestantOf(name));
  const send = (m: FromContestant): void =>
    void process.send?.(m, undefined, undefined, () => undefined);
  process.on('disconnect', () => process.exit(0));
  process.on('message', ({ id, request }: ToContestant) => {
    stage.answer(request).then(
      (value) => send({ id, ok: true, value }),
      (e: unknown) => {
        const message = e instanceof Error ? e.message || e.name : String(e);
        send({ id, ok: false, message: e instanceof Unsupported ? message : `failed: ${message}` });
      },
    );
  });
}

main();
