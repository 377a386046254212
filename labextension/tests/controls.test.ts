// @vitest-environment happy-dom
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ActiveSession } from '../src/controls/active_session';
import { SessionBar } from '../src/controls/bar';
import { COMMANDS, commandId } from '../src/controls/commands';
import { NOTHING, type Situation } from '../src/controls/situation';
import type { Checked } from '../src/controls/start_check';
import { StartForm, type Check } from '../src/controls/start_form';
import { DEFAULTS, type Field } from '../src/controls/start_line';
import { StatusItem } from '../src/controls/status_item';

const idle: Situation = { ...NOTHING, notebook: true, kernel: 'idle' };
const session = { id: 's', state: 'idle', processes: 2, cell: null } as const;

/** The part of an active session that the widgets use. */
class FakeActive {
  situation: Situation = NOTHING;
  readonly changed = new Signal<this, Situation>(this);

  become(situation: Situation): void {
    this.situation = situation;
    this.changed.emit(situation);
  }
}

const activeOf = (fake: FakeActive): ActiveSession => fake as unknown as ActiveSession;

describe('the bar', () => {
  let active: FakeActive;
  let bar: SessionBar;
  let done: string[];

  beforeEach(() => {
    active = new FakeActive();
    done = [];
    const commands = new CommandRegistry();
    for (const { action } of COMMANDS) {
      commands.addCommand(commandId(action), { execute: () => done.push(action) });
    }
    bar = new SessionBar(activeOf(active), commands);
  });

  const buttons = () => Array.from(bar.node.querySelectorAll('button'));
  const button = (text: string) => buttons().find(one => one.textContent === text);

  it('has a button for each action, with the reason why it makes no sense', () => {
    expect(buttons().map(one => one.textContent)).toEqual(COMMANDS.map(({ label }) => label));
    expect(buttons().every(one => one.getAttribute('aria-disabled') === 'true')).toBe(true);
    active.become(idle);
    expect(button('Start…')?.hasAttribute('aria-disabled')).toBe(false);
    expect(button('Start…')?.classList.contains('nbdist-lab-first')).toBe(true);
    expect(button('Recover')?.title).not.toBe(button('Start…')?.title);
  });

  it('does what is pressed, and nothing that makes no sense', () => {
    active.become({ ...idle, session });
    button('Start…')?.click();
    expect(done).toEqual([]);
    button('Recover')?.click();
    expect(done).toEqual(['recover']);
  });

  it('says the state, and offers to recover where that is needed', () => {
    active.become({ ...idle, session: { ...session, state: 'stuck' } });
    expect(bar.node.querySelector('[role=status]')?.textContent).toBe('2 processes · stuck');
    expect(button('Recover')?.classList.contains('nbdist-lab-first')).toBe(true);
  });

  it('follows nothing once it is disposed of, which may be done twice', () => {
    bar.dispose();
    bar.dispose();
    active.become(idle);
    expect(button('Start…')?.getAttribute('aria-disabled')).toBe('true');
  });
});

describe('the item of the status bar', () => {
  it('is there while a session is, and opens the panel', () => {
    const active = new FakeActive();
    const opened = vi.fn();
    const item = new StatusItem(activeOf(active), opened);
    const changed = vi.fn();
    item.activeChanged.connect(changed);
    expect(item.isActive).toBe(false);
    active.become({ ...idle, session });
    expect(item.isActive).toBe(true);
    expect(changed).toHaveBeenCalledOnce();
    expect(item.node.textContent).toBe('2 processes · idle');
    item.node.querySelector('button')?.click();
    expect(opened).toHaveBeenCalledOnce();
  });
});

describe('the form of a start', () => {
  const fine: Checked = { error: null, loaded: true, choices: { platform: ['cpu', 'tpu'] } };
  const wrong = (field: Field | null, text: string): Checked => ({
    ...fine,
    error: { field, text },
  });
  let form: StartForm;

  const control = (field: Field): HTMLInputElement => {
    const found = form.node.querySelector<HTMLInputElement>(`[data-field=${field}]`);
    if (!found) throw new Error(`the form has no ${field}`);
    return found;
  };
  const error = (field: Field) =>
    form.node.querySelector(`#nbdist-start-${field}-error`)?.textContent;
  const type = (field: Field, value: string): void => {
    control(field).value = value;
    control(field).dispatchEvent(new Event('input', { bubbles: true }));
  };
  const open = async (check: Check): Promise<void> => {
    form = new StartForm(DEFAULTS, check);
    await vi.advanceTimersByTimeAsync(0);
  };

  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    form.dispose();
    vi.useRealTimers();
  });

  it('shows the line that it makes', async () => {
    await open(() => Promise.resolve(fine));
    type('processes', '4');
    type('place', 'hosts');
    type('hosts', 'h1:4');
    expect(form.node.querySelector('output')?.textContent).toBe('%dist_init -n 4 --hosts h1:4');
    expect(form.getValue()).toEqual({ ...DEFAULTS, processes: '4', place: 'hosts', hosts: 'h1:4' });
  });

  it('asks for hosts only where there are any', async () => {
    await open(() => Promise.resolve(fine));
    const row = () => control('hosts').parentElement;
    expect(row()?.hidden).toBe(true);
    type('place', 'hosts');
    expect(row()?.hidden).toBe(false);
  });

  it('has the choices that the kernel knows', async () => {
    await open(() => Promise.resolve(fine));
    const options = (control('platform') as unknown as HTMLSelectElement).options;
    expect(Array.from(options, one => one.value)).toEqual(['', 'cpu', 'tpu']);
  });

  it("shows the kernel's words beside the field, as text, until they are no longer true", async () => {
    const text = `<img src=x onerror=alert(1)>${'long '.repeat(2000)}`;
    await open(pieces => Promise.resolve(pieces.length ? wrong('processes', text) : fine));
    type('processes', 'x');
    await vi.advanceTimersByTimeAsync(1000);
    expect(error('processes')).toBe(text);
    expect(form.node.querySelector('img')).toBeNull();
    expect(control('processes').validationMessage).toBe(text);
    expect(control('processes').getAttribute('aria-invalid')).toBe('true');
    expect(error('devices')).toBe('');
    type('processes', '');
    await vi.advanceTimersByTimeAsync(1000);
    expect(error('processes')).toBe('');
    expect(control('processes').validationMessage).toBe('');
  });

  it('cannot be accepted while all of it is wrong', async () => {
    await open(() => Promise.resolve(wrong(null, 'no nbdist')));
    expect(form.node.querySelector('.jp-mod-error')?.textContent).toBe('no nbdist');
  });

  it('asks one question at a time, and the newest last', async () => {
    const asked: string[] = [];
    let answer: (checked: Checked) => void = () => undefined;
    await open(pieces => {
      asked.push(pieces.map(([, words]) => words).join(' '));
      return new Promise(resolve => (answer = resolve));
    });
    for (const processes of ['1', '12', '123']) {
      type('processes', processes);
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect(asked).toEqual(['']);
    answer(fine);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toEqual(['', '-n 123']);
  });
});
