import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import {
  CHOOSE_TARGET,
  COMMANDS,
  PREFIX,
  SHOW_PANEL,
  TABS,
  commandId,
} from '../src/controls/commands';
import {
  NOTHING,
  needsRecovery,
  refusal,
  sessionOf,
  stateText,
  type Action,
  type Situation,
} from '../src/controls/situation';
import { golden } from './golden';

const { snapshot } = golden('tour');
const idle: Situation = { ...NOTHING, notebook: true, kernel: 'idle' };
const session = { id: 's', state: 'idle', processes: 4, cell: null } as const;
const live: Situation = { ...idle, session };
const busy: Situation = { ...live, kernel: 'busy', session: { ...session, state: 'running' } };

/** Return the actions that make sense. */
const enabled = (situation: Situation): Action[] =>
  COMMANDS.map(({ action }) => action).filter(action => refusal(action, situation) === null);

describe('the actions on a session', () => {
  it.each<[string, Situation, Action[]]>([
    ['no notebook', NOTHING, []],
    ['no kernel', { ...idle, kernel: 'none' }, []],
    ['a dead kernel', { ...live, kernel: 'dead' }, []],
    ['a kernel that begins', { ...idle, kernel: 'begins' }, []],
    ['no session', idle, ['start']],
    ['no session and a cell', { ...idle, kernel: 'busy' }, ['interrupt']],
    ['an idle session', live, ['recover', 'restart', 'shutdown']],
    ['a cell on all processes', busy, ['interrupt']],
    [
      'a cell in the background',
      { ...busy, kernel: 'idle' },
      ['interrupt', 'recover', 'restart', 'shutdown'],
    ],
    ['the form of a start', { ...idle, underWay: 'start' }, []],
    ['a start', { ...idle, kernel: 'busy', underWay: 'start' }, ['interrupt']],
    ['a question', { ...live, underWay: 'shutdown' }, []],
    [
      'a session out of step',
      { ...live, session: { ...session, state: 'out of step' } },
      ['recover', 'restart', 'shutdown'],
    ],
  ])('that make sense, with %s', (_, situation, actions) => {
    expect(enabled(situation)).toEqual(actions);
  });

  it('are offered first where the session needs one', () => {
    expect(needsRecovery({ ...live, session: { ...session, state: 'stuck' } })).toBe(true);
    expect(needsRecovery(live)).toBe(false);
    const stuck = { ...session, state: 'stuck' as const };
    expect(needsRecovery({ ...live, kernel: 'busy', session: stuck })).toBe(false);
  });
});

describe('the state of a session', () => {
  it.each<[Situation, string]>([
    [idle, 'no session'],
    [{ ...idle, underWay: 'start' }, 'no session'],
    [{ ...idle, kernel: 'busy', underWay: 'start' }, 'starting'],
    [{ ...idle, kernel: 'busy', underWay: 'restart' }, 'restarting'],
    [{ ...idle, kernel: 'busy', underWay: 'recover' }, 'no session'],
    [live, '4 processes · idle'],
    [{ ...live, session: { ...session, processes: 1 } }, '1 process · idle'],
    [
      { ...busy, session: { ...session, state: 'running', cell: 5 } },
      '4 processes · running cell 5',
    ],
    [{ ...live, session: { ...session, state: 'stuck', cell: 5 } }, '4 processes · stuck'],
  ])('%#', (situation, text) => {
    expect(stateText(situation)).toBe(text);
  });

  it('is that of the newest cell in which a process is', () => {
    const [first, ...others] = snapshot.processes;
    if (!first) throw new Error('the golden snapshot has no process');
    const processes = [
      { ...first, state: 'running' as const, cell: 5 },
      ...others.map(one => ({ ...one, state: 'idle' as const, cell: 9 })),
    ];
    expect(sessionOf({ ...snapshot, state: 'running', processes })?.cell).toBe(5);
  });

  it('is that of no session once it has stopped', () => {
    expect(sessionOf({ ...snapshot, state: 'stopped' })).toBeNull();
    expect(sessionOf(null)).toBeNull();
  });
});

interface Item {
  readonly command?: string;
  readonly submenu?: { readonly items: readonly Item[] };
}

interface Schema {
  readonly 'jupyter.lab.menus': {
    readonly main: readonly [{ readonly items: readonly Item[] }];
  };
  readonly 'jupyter.lab.shortcuts': readonly {
    readonly command: string;
    readonly keys: readonly string[];
  }[];
}

describe('the schema of the settings', () => {
  const file = new URL('../schema/plugin.json', import.meta.url);
  const schema = JSON.parse(readFileSync(file, 'utf-8')) as Schema;
  const actions = COMMANDS.map(({ action }) => commandId(action));

  it('has all commands in the menu', () => {
    const commandsOf = (items: readonly Item[]): string[] =>
      items.flatMap(({ command, submenu }) => command ?? commandsOf(submenu?.items ?? []));
    const others = [CHOOSE_TARGET, SHOW_PANEL, ...TABS].map(({ id }) => id);
    expect(commandsOf(schema['jupyter.lab.menus'].main[0].items)).toEqual([...actions, ...others]);
  });

  it('has the shortcuts of the table, none of them twice', () => {
    const keys = [...COMMANDS, CHOOSE_TARGET, SHOW_PANEL].map(({ key }) => key);
    const shortcuts = schema['jupyter.lab.shortcuts'];
    expect(shortcuts.map(({ command }) => command)).toEqual([
      ...actions,
      CHOOSE_TARGET.id,
      SHOW_PANEL.id,
    ]);
    expect(shortcuts.map(one => one.keys)).toEqual(keys.map(key => [PREFIX, key]));
    expect(new Set(keys).size).toBe(keys.length);
  });
});
