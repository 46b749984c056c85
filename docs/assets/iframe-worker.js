// Search without a server: browsers forbid workers to pages that are opened from file://, so there the theme's search worker
// runs in a hidden frame. The theme asks for `IFrameWorker` by name, and loads this from mkdocs.yml (extra.polyfills).
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = () => failed(new Error(`${source} cannot be loaded`));
          inside.document.head.append(script);
        });
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = load(new URL(address, location).href);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
