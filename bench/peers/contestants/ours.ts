/** Our own plans, run as a profile runs them: resident buffers, the whole plan in one submit. */
import { hostname } from 'node:os';
import type { ExecPlan } from '../../../compiler/result';
import { deviceForAdapter } from '../../../runner/core/deviceProfile';
import { Session } from '../../../runner/core/session';
import type { RunJob } from '../../../runner/core/types';
import { pause } from '../../../runner/node/dawn';
import { readProfile } from '../../../runner/node/profileCache';
import { compileWorkload, type Contents } from '../workloads';
import type { Contestant, Prepared, Task } from './contestant';

const NEVER = {
  aborted: false,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
};

export class Ours implements Contestant {
  private session: Session | undefined;

  constructor(private readonly which: 'fused' | 'unfused') {}

  async open(gpu: GPU): Promise<string> {
    this.session = await Session.open({
      gpu,
      kind: 'node',
      name: hostname(),
      now: () => performance.now(),
      pause,
    });
    const { device } = await this.deviceOf(this.session);
    const rates = device.source === 'measured' ? 'measured rates' : `rates of "${device.name}"`;
    return `Fusion Lens, ${this.which} plan, ${rates}`;
  }

  async prepare({ workload, bytes, contents }: Task): Promise<Prepared> {
    const session = this.session;
    if (!session) throw new Error('not opened');
    const { device } = await this.deviceOf(session);
    const compilation = compileWorkload(workload, bytes, device);
    const { runnable } = compilation.result;
    if (!runnable.ok) throw new Error(runnable.reason);
    const exec = compilation.execPlan(this.which);
    const resident = await session.resident({
      exec,
      inputs: inputsOf(exec, contents),
      options: {},
    });
    return {
      run: () => resident.submit(),
      outputs: async () =>
        (await resident.read(NEVER)).map((o) => {
          if (!(o.data instanceof Float32Array)) throw new Error(`${o.name} is not stored as f32`);
          return o.data;
        }),
      release: () => resident.release(),
    };
  }

  private async deviceOf(
    session: Session,
  ): Promise<{ device: ReturnType<typeof deviceForAdapter> }> {
    const { adapter } = session;
    return { device: deviceForAdapter({ ...adapter, ...(await readProfile(adapter)) }, undefined) };
  }
}

function inputsOf(exec: ExecPlan, contents: Contents): RunJob['inputs'] {
  return exec.buffers.flatMap((b) => {
    const data = contents.get(b.name);
    return data && (b.role === 'input' || b.role === 'param') ? [{ buffer: b.id, data }] : [];
  });
}
