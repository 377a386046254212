/**
 * A view in a notebook output, without ipywidgets.
 *
 * An output of nbdist carries the MIME type of the widget and nbdist's own. If this extension is
 * installed, JupyterLab prefers nbdist's own. The view then follows the frames that the kernel
 * broadcasts, so it is live again after a reload in the middle of a cell. If the kernel is gone,
 * the output is empty beside the still picture, where ipywidgets would say "model not found".
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { RenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { LivePlace, mountFixed } from './place';
import type { Sources } from './source';
import { unpacked } from './view/model/frames';
import type { ViewTraits } from './view/model/messages';

/** A widget of the shell that has a kernel, such as a notebook or a console. */
interface Owner {
  readonly sessionContext: ISessionContext;
  readonly context?: { readonly path: string };
}

const isOwner = (widget: unknown): widget is Owner =>
  typeof widget === 'object' && widget !== null && 'sessionContext' in widget;

/** Return the notebook or console that holds `node`, else the one at `path`, for an output shown apart from it. */
function ownerOf(
  shell: JupyterFrontEnd.IShell,
  node: HTMLElement,
  path: string | null,
): Owner | null {
  let byPath: Owner | null = null;
  for (const widget of shell.widgets('main')) {
    if (!isOwner(widget)) continue;
    if (widget.node.contains(node)) return widget;
    if (path !== null && widget.context?.path === path) byPath = widget;
  }
  return byPath;
}

const textOf = (data: object, key: string): string => {
  const value: unknown = (data as Record<string, unknown>)[key];
  return typeof value === 'string' ? value : '';
};

function traitsOf(data: unknown): ViewTraits {
  const payload = typeof data === 'object' && data !== null ? data : {};
  return {
    view_id: textOf(payload, 'view_id'),
    focus: textOf(payload, 'focus'),
    session: textOf(payload, 'session'),
    form: textOf(payload, 'form') === 'strip' ? 'strip' : 'view',
    packed: textOf(payload, 'packed') || null,
  };
}

/**
 * One notebook output with a view, hidden while its session is not there.
 *
 * The still picture is an output of its own. A frame that never changes is saved in the notebook
 * itself, and is shown without any kernel.
 */
export class OutputView extends Widget implements IRenderMime.IRenderer {
  private place: LivePlace | null = null;
  private unmount: (() => void) | null = null;
  private context: ISessionContext | null = null;
  /** Number of calls of `clear`. `renderModel` checks it, since it may be overtaken while it unpacks a frame. */
  private drawn = 0;

  constructor(
    private readonly options: IRenderMime.IRendererOptions,
    private readonly shell: JupyterFrontEnd.IShell,
    private readonly sources: Sources,
  ) {
    super();
    this.addClass('nbdist-lab-output');
    this.hide();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.clear();
    const traits = traitsOf(model.data[this.options.mimeType]);
    if (traits.packed !== null) {
      const { drawn } = this;
      const frame = await unpacked(traits.packed);
      // Meanwhile another model may have been rendered, or this output disposed of.
      if (this.drawn !== drawn || !frame) return;
      this.show();
      this.unmount = mountFixed(this.node, traits, frame);
      return;
    }
    this.place = new LivePlace(this.node, traits, live => {
      this.setHidden(!live);
    });
    this.followKernel();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.context?.kernelChanged.disconnect(this.followKernel, this);
    this.clear();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    const { resolver } = this.options;
    const path = resolver instanceof RenderMimeRegistry.UrlResolver ? resolver.path : null;
    const context = ownerOf(this.shell, this.node, path)?.sessionContext ?? null;
    if (context === this.context) return;
    this.context?.kernelChanged.disconnect(this.followKernel, this);
    this.context = context;
    context?.kernelChanged.connect(this.followKernel, this);
    this.followKernel();
  }

  private clear(): void {
    this.drawn += 1;
    this.place?.dispose();
    this.place = null;
    this.unmount?.();
    this.unmount = null;
  }

  private followKernel(): void {
    const kernel = this.context?.session?.kernel ?? null;
    this.place?.follow(kernel && this.sources.of(kernel));
  }
}
