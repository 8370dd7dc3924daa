/** Objects that nobody refers to any more are ended on the server too. */

import type { Commands, Ended } from "./commands.js";

interface Held {
  // A context that is gone takes its objects along.
  readonly commands: WeakRef<Commands>;
  readonly object: Ended;
}

const REGISTRY = new FinalizationRegistry<Held>(({ commands, object }) =>
  commands.deref()?.abandon(object),
);

/** Ends an object on the server some time after nobody refers to its owner any more. */
export function endWith(owner: object, commands: Commands, object: Ended): void {
  REGISTRY.register(owner, { commands: new WeakRef(commands), object }, owner);
}

/** The owner ends its object itself. */
export function forget(owner: object): void {
  REGISTRY.unregister(owner);
}
