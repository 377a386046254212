// @vitest-environment happy-dom
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { ActiveSession } from '../src/controls/active_session';
import { Preferences } from '../src/controls/preferences';
import { TargetItem } from '../src/controls/target_item';

vi.mock('@jupyterlab/apputils', () => ({
  InputDialog: { getText: () => Promise.resolve({ value: ' 0,3 ' }) },
}));

const process = { state: 'idle', cell: null };
const snapshot = { session: 's', state: 'idle', processes: [process, process, process, process] };

/** A code cell in a notebook whose kernel has a session, as far as the item uses them. */
class World {
  source = 'x = 1';
  type = 'code';
  onProcesses = false;
  live = true;
  readonly changed = new Signal<this, undefined>(this);
  readonly cell = {
    model: {
      type: this.type,
      sharedModel: {
        changed: this.changed,
        getSource: () => this.source,
        setSource: (source: string) => {
          this.write(source);
        },
      },
    },
  };
  readonly preferences = new Preferences();

  write(source: string): void {
    this.source = source;
    this.changed.emit(undefined);
  }

  item(): TargetItem {
    const panel = { content: { widgets: [this.cell], activate: () => undefined } };
    const find = (test: (one: unknown) => boolean) => (test(panel) ? panel : undefined);
    const newest = () => (this.live ? { snapshot } : null);
    const active = {
      changed: new Signal<object, undefined>({}),
      sourceOf: () => ({ newest, onProcesses: this.onProcesses }),
    };
    return new TargetItem(
      this.cell as unknown as Cell,
      { find } as unknown as INotebookTracker,
      active as unknown as ActiveSession,
      this.preferences,
    );
  }
}

describe('the item in the toolbar of a cell', () => {
  let world: World;
  const selectOf = (item: TargetItem): HTMLSelectElement => {
    const found = item.node.querySelector('select');
    if (!found) throw new Error('the item has no menu');
    return found;
  };
  const choose = (item: TargetItem, text: string): void => {
    selectOf(item).value = text;
    selectOf(item).dispatchEvent(new Event('change'));
  };

  beforeEach(() => {
    world = new World();
  });

  it('shows where the cell runs, as it is typed', () => {
    const item = world.item();
    expect(selectOf(item).value).toBe('only here');
    world.write('%%dist --on 0,2\nx');
    expect(selectOf(item).value).toBe('processes 0,2');
    item.dispose();
    world.write('%%dist\nx');
    expect(selectOf(item).value).toBe('processes 0,2');
  });

  it('changes the first line', async () => {
    const item = world.item();
    choose(item, 'all processes');
    await vi.waitFor(() => {
      expect(world.source).toBe('%%dist\nx = 1');
    });
    choose(item, 'process 1');
    await vi.waitFor(() => {
      expect(world.source).toBe('%%dist --on 1\nx = 1');
    });
    choose(item, 'some processes…');
    await vi.waitFor(() => {
      expect(world.source).toBe('%%dist --on 0,3\nx = 1');
    });
  });

  it('knows where plain cells run', () => {
    world.onProcesses = true;
    expect(selectOf(world.item()).value).toBe('all processes');
  });

  it('is hidden where there is nothing to choose, and by the setting', () => {
    expect(world.item().isHidden).toBe(false);
    world.live = false;
    expect(world.item().isHidden).toBe(true);
    world.source = '%%dist\nx';
    expect(world.item().isHidden).toBe(false);
    world.source = '%%bash\nls';
    expect(world.item().isHidden).toBe(true);
    world.source = '%%dist\nx';
    world.preferences.cellTarget = false;
    expect(world.item().isHidden).toBe(true);
    world.preferences.cellTarget = true;
    world.cell.model.type = 'markdown';
    expect(world.item().isHidden).toBe(true);
  });
});
