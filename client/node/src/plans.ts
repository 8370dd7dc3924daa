/** Calls that a context remembers; the one that was not used for longest is forgotten first. */
const CAPACITY = 1024;

/**
 * Workspace sizes of calls that were planned before.
 *
 * Equal calls (operator, specs of tensors, values of all else) are planned alike. The server validates each
 * one nevertheless.
 */
export class Plans {
  private readonly sizes = new Map<string, number>();

  /** The workspace size of a call, in bytes; undefined where it is not known. */
  find(key: string): number | undefined {
    const size = this.sizes.get(key);
    if (size !== undefined) this.keep(key, size);
    return size;
  }

  /** Remembers the workspace size of a call. */
  keep(key: string, size: number): void {
    this.sizes.delete(key); // so that it becomes the newest
    this.sizes.set(key, size);
    if (this.sizes.size > CAPACITY) this.sizes.delete(this.sizes.keys().next().value as string);
  }
}
