// Lets the search run in a site that is opened from files: for those, browsers start no workers.
//
// A hidden frame stands in for the worker. It loads the worker's script, and messages go to and from it as events.
if (location.protocol === "file:") {
  const inFrame = (script) => {
    self.postMessage = (data) => parent.postMessage(data, "*");
    self.importScripts = (...urls) =>
      urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve());
    const load = (url) =>
      new Promise((loaded, failed) => {
        const element = document.createElement("script");
        Object.assign(element, { src: url, onload: loaded, onerror: failed });
        document.body.append(element);
      });
    return load(script);
  };

  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      const page = frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source === page) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      this.ready = page.eval(`(${inFrame})`)(String(script));
    }

    postMessage(data) {
      const page = this.frame.contentWindow;
      this.ready.then(() => page.dispatchEvent(new page.MessageEvent("message", { data: structuredClone(data) })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
