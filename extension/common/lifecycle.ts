/**
 * Lifetimes and events, in the shape VS Code uses, without importing it: what is built on these runs
 * in unit tests as well as in both kinds of extension host.
 *
 * Rule: a disposable is registered in the line that creates it.
 */
export interface Disposable {
  dispose(): unknown;
}

/** Owns disposables and disposes them in reverse order. */
export abstract class Owner implements Disposable {
  private readonly owned: Disposable[] = [];
  private disposed = false;

  protected register<T extends Disposable>(disposable: T): T {
    if (this.disposed) disposable.dispose();
    else this.owned.push(disposable);
    return disposable;
  }

  protected get isDisposed(): boolean {
    return this.disposed;
  }

  dispose(): void {
    this.disposed = true;
    for (const disposable of this.owned.splice(0).reverse()) disposable.dispose();
  }
}

/** Assignable to `vscode.Event<T>`. */
export type Event<T> = (
  listener: (value: T) => unknown,
  thisArg?: unknown,
  disposables?: Disposable[],
) => Disposable;

export class Emitter<T> implements Disposable {
  private readonly listeners = new Set<(value: T) => unknown>();

  readonly event: Event<T> = (listener, thisArg, disposables) => {
    const bound =
      thisArg === undefined
        ? (value: T) => listener(value)
        : (value: T) => listener.call(thisArg, value);
    this.listeners.add(bound);
    const disposable = { dispose: () => this.listeners.delete(bound) };
    disposables?.push(disposable);
    return disposable;
  };

  fire(value: T): void {
    for (const listener of [...this.listeners]) listener(value);
  }

  dispose(): void {
    this.listeners.clear();
  }
}

/** For values that have no `await`-er: a rejection there is a bug, and is reported as one. */
export function reportRejection(
  promise: PromiseLike<unknown>,
  report: (error: unknown) => void,
): void {
  promise.then(undefined, report);
}
