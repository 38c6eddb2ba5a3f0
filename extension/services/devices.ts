/**
 * Which adapter the estimates are for.
 *
 * By default it is the one at hand: it is asked for in the background when the first graph is
 * compiled, and again when the settings that choose the runner change; a profile run tells it too. The
 * one that was found last counts until the answer comes, so that nothing is compiled twice.
 * Until it is known, and where it can't be, estimates are for an integrated GPU with the limits that
 * WebGPU guarantees, and the sentence of {@link Devices.note} says so and why.
 */
import { DEFAULT_DEVICE, deviceByName } from '../../compiler/fusion/devices';
import type { DeviceProfile } from '../../compiler/result';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import type { AdapterInfo, RunnerReply } from '../../runner/core/types';
import { Emitter, Owner } from '../common/lifecycle';
import type { DeviceChoice } from './settings';

export interface AdapterSource {
  readonly isTrusted: () => boolean;
  /** Undefined: it can't be asked now (the page that would tell is not open). */
  readonly ask: () => Promise<RunnerReply<AdapterInfo> | undefined>;
  /** What was found last on this machine, perhaps by another window. */
  readonly remembered?: () => unknown;
  readonly remember?: (adapter: AdapterInfo | undefined) => void;
}

type Known =
  | { readonly kind: 'unasked' }
  | { readonly kind: 'asking' }
  | { readonly kind: 'adapter'; readonly adapter: AdapterInfo }
  | { readonly kind: 'unknown'; readonly reason: string };

const RESTRICTED = 'in Restricted Mode nothing is asked of the GPU';
const NO_PAGE = 'the GPU of this window is asked once a graph is shown';

/** The first compile shall not wait for a process that starts beside it. */
const PATIENCE_MS = 400;

export class Devices extends Owner {
  private known: Known = { kind: 'unasked' };
  private timer: ReturnType<typeof setTimeout> | undefined;
  private generation = 0;
  private wanted = false;
  private awaitsPage = false;

  private readonly profileChanges = this.register(new Emitter<void>());
  /** What graphs are compiled for may have changed. */
  readonly onDidChangeProfile = this.profileChanges.event;
  private readonly noteChanges = this.register(new Emitter<void>());
  readonly onDidChangeNote = this.noteChanges.event;

  constructor(
    private readonly source: AdapterSource,
    private readonly patienceMs = PATIENCE_MS,
  ) {
    super();
    this.register({ dispose: () => clearTimeout(this.timer) });
    const last = source.remembered?.();
    if (isAdapter(last)) this.known = { kind: 'adapter', adapter: last };
  }

  /** The one at hand, where it is known. */
  get adapter(): AdapterInfo | undefined {
    return this.known.kind === 'adapter' ? this.known.adapter : undefined;
  }

  /** What to compile for; asks for the adapter when it is needed for the first time. */
  profileFor(choice: DeviceChoice): DeviceProfile {
    if (choice === 'auto') this.want();
    const asked = choice === 'auto' ? undefined : deviceByName(choice);
    return this.known.kind === 'adapter'
      ? deviceForAdapter(this.known.adapter, asked)
      : (asked ?? DEFAULT_DEVICE);
  }

  /** For people: which adapter estimates are for, and how that is known. */
  note(choice: DeviceChoice): string {
    const { known } = this;
    if (choice !== 'auto')
      return `Estimates are for a device of the kind "${choice}", as the setting fusionLens.device says.`;
    switch (known.kind) {
      case 'adapter': {
        const { adapter } = known;
        const name = adapter.description || adapter.architecture || adapter.vendor;
        const profile = deviceForAdapter(adapter, undefined);
        const rates =
          profile.source === 'measured'
            ? 'the rates that were measured of it (measured profile)'
            : `the rates of the kind "${profile.name}"`;
        const note = adapter.measuredNote === undefined ? '' : ` ${adapter.measuredNote}`;
        return `Estimates are for ${name || 'the adapter at hand'}: its own limits, and ${rates}.${note}`;
      }
      case 'unasked':
      case 'asking':
        return 'Estimates are for an integrated GPU until the adapter at hand has been asked.';
      case 'unknown':
        return `Estimates are for an integrated GPU: ${known.reason}.`;
    }
  }

  /** A runner told which adapter it has. */
  learn(adapter: AdapterInfo): void {
    this.generation++;
    this.awaitsPage = false;
    this.source.remember?.(adapter);
    this.set({ kind: 'adapter', adapter });
  }

  /** What was found out no longer counts, or more can be found out now: asks again. */
  askAgain(): void {
    if (!this.wanted) return;
    this.generation++;
    this.want(true);
  }

  /** The setting changed: another sentence holds. */
  choiceChanged(): void {
    this.noteChanges.fire();
  }

  /** The page that can tell is there. */
  pageIsReady(): void {
    if (this.awaitsPage) this.askAgain();
  }

  private want(again = false): void {
    if (!again && this.wanted) return;
    this.wanted = true;
    if (!this.source.isTrusted()) {
      if (this.known.kind !== 'adapter') this.set({ kind: 'unknown', reason: RESTRICTED });
      return;
    }
    // While it is asked anew, what is known still holds.
    if (this.known.kind !== 'adapter') this.set({ kind: 'asking' });
    clearTimeout(this.timer);
    const generation = ++this.generation;
    this.timer = setTimeout(() => void this.ask(generation), this.patienceMs);
  }

  private async ask(generation: number): Promise<void> {
    let answer: RunnerReply<AdapterInfo> | undefined;
    try {
      answer = await this.source.ask();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      answer = { ok: false, fault: { code: 'INTERNAL', message } };
    }
    // Somebody else found out meanwhile, or the settings changed.
    if (generation !== this.generation || this.isDisposed) return;
    this.awaitsPage = answer === undefined;
    if (!answer) {
      if (this.known.kind !== 'adapter') this.set({ kind: 'unknown', reason: NO_PAGE });
      return;
    }
    this.source.remember?.(answer.ok ? answer.value : undefined);
    this.set(
      answer.ok
        ? { kind: 'adapter', adapter: answer.value }
        : { kind: 'unknown', reason: asReason(answer.fault.message) },
    );
  }

  private set(known: Known): void {
    const before = profileText(this.known);
    this.known = known;
    this.noteChanges.fire();
    if (profileText(known) !== before) this.profileChanges.fire();
  }
}

/** What is remembered may come from another version. */
function isAdapter(value: unknown): value is AdapterInfo {
  if (typeof value !== 'object' || value === null) return false;
  const { vendor, architecture, description, software, limits } = value as Partial<AdapterInfo>;
  return (
    [vendor, architecture, description].every((text) => typeof text === 'string') &&
    typeof software === 'boolean' &&
    typeof limits === 'object' &&
    Object.entries(DEFAULT_DEVICE.limits).every(
      ([name, value]) => typeof Reflect.get(limits, name) === typeof value,
    )
  );
}

/** Two adapters with the same text are the same to the compiler. */
function profileText(known: Known): string {
  const profile =
    known.kind === 'adapter' ? deviceForAdapter(known.adapter, undefined) : DEFAULT_DEVICE;
  return JSON.stringify(profile);
}

/** A sentence as the end of another. */
function asReason(message: string): string {
  const [first = message] = message.split('\n', 1);
  return `the adapter at hand is not known (${first.replace(/[.\s]+$/, '')})`;
}
