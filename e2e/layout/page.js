// Runs before the scripts of each page. Another script sets window.replies to the replies of a state.
(() => {
  const never = new Promise(() => {});

  const replyOf = (method, { pathname, search }) =>
    window.replies.find((reply) => reply.method === method && new RegExp(reply.path).test(pathname) && search.includes(reply.query ?? ""));

  const real = window.fetch;
  window.fetch = async (input, init) => {
    const request = input instanceof Request ? input : new Request(new URL(input, location.origin), init);
    const url = new URL(request.url);
    if (!url.pathname.startsWith("/api/")) return real(input, init);
    const { status, body } = replyOf(request.method, url) ?? { status: 0 };
    if (status === 0) return never;
    const headers = { "Content-Type": "application/json", ...(status === 429 && { "Retry-After": "60" }) };
    return new Response(body === undefined ? null : JSON.stringify(body), { status, headers });
  };
  // A terminal that never connects.
  window.WebSocket = class {
    static OPEN = 1;
    readyState = 0;
    addEventListener() {}
    removeEventListener() {}
    close() {}
    send() {}
  };
  // The examples of the contract are of this time. A clock that runs would change how long ago something was.
  const now = Date.parse("2026-01-05T12:00:00Z");
  window.Date = class extends Date {
    constructor(...args) {
      if (args.length === 0) super(now);
      else super(...args);
    }
    static now() {
      return now;
    }
  };

  // changed is the time of the last change of the page.
  let changed = 0;
  new MutationObserver(() => (changed = performance.now())).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });

  const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const quiet = 30; // milliseconds without a change
  const patience = 8_000;

  // settled waits until a condition is true and nothing changes, and returns false if that needs too long.
  async function settled(isDone) {
    for (const began = performance.now(); !isDone() || performance.now() - changed < quiet; await pause(8)) {
      if (performance.now() - began > patience) return false;
    }
    return true;
  }

  // Charts are drawn after the page, and again at another width.
  const areDrawn = () => [...document.querySelectorAll(".plot")].every((plot) => Math.abs((plot.querySelector(".u-wrap")?.offsetWidth ?? 0) - plot.clientWidth) <= 2);

  // visit opens a screen, and waits until it has loaded. In the state loading it never does. Each screen has a heading of
  // its own, so that one that has not opened yet is not taken for the next one.
  async function visit(path, loading) {
    const before = document.querySelector("main h1");
    history.pushState({}, "", `/portal${path}`);
    const isOpen = () => {
      const heading = document.querySelector("main h1");
      return heading !== null && heading !== before && areDrawn() && (loading || document.querySelector('main [data-state="loading"]') === null);
    };
    return (await settled(isOpen)) ? "" : `it shows ${document.body.innerText.slice(0, 300)}`;
  }

  // resized waits until a window has another width, and what follows it.
  async function resized(width) {
    while (innerWidth !== width) await pause(2);
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return (await settled(areDrawn)) ? "" : "a chart is not drawn";
  }

  // The parts of a screen that the snapshot has.
  const parts = "h1, section, form, fieldset, dl, details, figure, .command, [role=region], [data-state]";
  const controls = "a[href], button, input, select, textarea, summary, [role=button], [role=option]";
  // A terminal and a chart draw themselves. A hidden text is for screen readers.
  const foreign = ".skip, .hidden, .xterm, .uplot, [aria-hidden=true]";
  const selfDrawn = "input, select, textarea, svg, svg *, canvas, .terminal";

  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && element.closest(foreign) === null;
  const nameOf = (element) => {
    const heading = element.matches("h1") ? element : element.querySelector(":scope > h2, :scope > h3, :scope > legend, :scope > summary");
    return (heading?.textContent ?? element.getAttribute("aria-label") ?? element.dataset.state ?? "").replaceAll(/[|"\s]+/g, " ").trim().slice(0, 28);
  };
  const kindOf = (element) => (element.dataset.state !== undefined ? "state" : element.matches(".command") ? "command" : element.getAttribute("role") === "region" ? "region" : element.localName);
  // A table is one part: its columns are as wide as the font makes them.
  const isPart = (element) => element.matches(parts) && element.closest("table") === null;
  function partOf(control) {
    let at = control.parentElement;
    while (at !== null && !isPart(at)) at = at.parentElement;
    return at;
  }
  const labelOf = (element) => {
    const name = nameOf(element);
    return name === "" ? kindOf(element) : `${kindOf(element)} "${name}"`;
  };
  const described = (element) => `${element.localName} "${(element.getAttribute("aria-label") ?? element.innerText ?? "").trim().slice(0, 40)}"`;

  // before is the lower edge of the visible element before a box, and the upper edge of the box around it without one.
  function before(element, around) {
    for (let at = element; at !== around; at = at.parentElement) {
      for (let other = at.previousElementSibling; other !== null; other = other.previousElementSibling) {
        const { width, height, bottom } = other.getBoundingClientRect();
        if (width > 1 && height > 1 && isVisible(other)) return bottom;
      }
    }
    return around.getBoundingClientRect().top;
  }

  // boxes lists the parts in an element, from the outside in.
  function boxes(around, depth = 0, top = around) {
    const found = [];
    for (const child of around.children) {
      if (!isVisible(child)) continue;
      if (!isPart(child)) {
        found.push(...boxes(child, depth, top));
        continue;
      }
      const { x, y, width, height } = child.getBoundingClientRect();
      const gap = Math.round(y - before(child, top));
      const own = [...child.querySelectorAll(controls)].filter((control) => partOf(control) === child && isVisible(control));
      found.push({ Label: labelOf(child), Depth: depth, Controls: own.length, X: Math.round(x), W: Math.round(width), H: Math.round(height), Gap: gap < 0 ? -1 : gap, element: child, parent: top });
      found.push(...boxes(child, depth + 1, child));
    }
    return found;
  }

  // visibleRects are the lines of an element, without what a container around it scrolls away or cuts.
  function visibleRects(element) {
    let rects = [...element.getClientRects()].map(({ left, top, right, bottom }) => ({ left, top, right, bottom }));
    for (let at = element.parentElement; at !== null && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX === "visible") continue;
      const edge = at.getBoundingClientRect();
      rects = rects.map((rect) => ({ left: Math.max(rect.left, edge.left), top: Math.max(rect.top, edge.top), right: Math.min(rect.right, edge.right), bottom: Math.min(rect.bottom, edge.bottom) }));
    }
    return rects.filter(({ left, top, right, bottom }) => right - left > 1 && bottom - top > 1);
  }

  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const contains = (a, b) => a.contains(b) || b.contains(a);

  function sideways() {
    const page = document.scrollingElement;
    if (page.scrollWidth <= innerWidth) return [];
    const outside = [...document.body.querySelectorAll("*")].filter((element) => isVisible(element) && visibleRects(element).some(({ right }) => right > innerWidth + 1));
    return [`the page is ${page.scrollWidth} px wide, because of ${outside.slice(-3).map(described).join(", ")}`];
  }

  function outside(all) {
    return all.filter(({ rects }) => rects.some(({ left, right }) => left < -1 || right > innerWidth + 1)).map(({ element }) => `${described(element)} is outside of the page`);
  }

  function covered(all) {
    const found = [];
    all.forEach((a, index) => {
      for (const b of all.slice(index + 1)) {
        if (!contains(a.element, b.element) && a.rects.some((one) => b.rects.some((other) => overlap(one, other)))) found.push(`${described(a.element)} and ${described(b.element)} lie over one another`);
      }
    });
    return found;
  }

  function siblings(all) {
    const found = [];
    all.forEach((a, index) => {
      for (const b of all.slice(index + 1)) {
        if (a.parent === b.parent && overlap(a.element.getBoundingClientRect(), b.element.getBoundingClientRect())) found.push(`${a.Label} and ${b.Label} lie over one another`);
      }
    });
    return found;
  }

  // Tab leads to one radio button of a group, and to no disabled control.
  function unreachable(all) {
    return all.filter(({ element }) => !element.disabled && element.tabIndex < 0 && !element.matches("[role=option]")).map(({ element }) => `the keyboard does not reach ${described(element)}`);
  }

  // cut has the texts that do not fit into their element: they are cut, or leave it on a side.
  function cut() {
    const found = [];
    for (const element of document.querySelectorAll("header *, main, main *, footer *")) {
      const { clientWidth, clientHeight, scrollWidth, scrollHeight } = element;
      const [isWider, isHigher] = [scrollWidth > clientWidth + 2, scrollHeight > clientHeight + 2];
      if (clientWidth === 0 || !(isWider || isHigher) || element.matches(selfDrawn) || !isVisible(element)) continue;
      const { overflowX, overflowY } = getComputedStyle(element);
      if (["auto", "scroll"].includes(overflowX)) continue;
      if (isWider || !["visible", "auto", "scroll"].includes(overflowY)) found.push(`the content of ${described(element)} needs ${scrollWidth} × ${scrollHeight} px of ${clientWidth} × ${clientHeight}`);
    }
    return found;
  }

  // The tests want reduced motion.
  function moving() {
    const count = document.getAnimations().filter(({ playState }) => playState === "running").length;
    return count === 0 ? [] : [`${count} animations run`];
  }

  // The schemes of a page: attributes of the document that the styles follow.
  const schemes = {
    light: {},
    dark: { "data-mantine-color-scheme": "dark" },
    contrast: { "data-contrast": "high" },
    darkContrast: { "data-mantine-color-scheme": "dark", "data-contrast": "high" },
    rtl: { dir: "rtl" },
  };

  // audit runs axe in a scheme. Only from right to left it reads the whole page, which also has no other fault then. Other
  // colours change nothing but the contrast of a page that was read before.
  async function audit(name, again) {
    const root = document.documentElement;
    const before = Object.keys(schemes[name]).map((attribute) => [attribute, root.getAttribute(attribute)]);
    Object.entries(schemes[name]).forEach(([attribute, value]) => root.setAttribute(attribute, value));
    const isWhole = name === "rtl";
    const { violations } = await axe.run(isWhole ? document : "#main", { resultTypes: ["violations"], ...(again && { runOnly: ["color-contrast"] }) });
    const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 2).map(({ html }) => html.slice(0, 200)).join(" | ")}`);
    if (isWhole) found.push(...measure().Faults);
    before.forEach(([attribute, value]) => (value === null ? root.removeAttribute(attribute) : root.setAttribute(attribute, value)));
    return found.map((fault) => `${name}: ${fault}`);
  }

  // measure returns the boxes of a screen, and what breaks a rule in any case.
  function measure() {
    const all = boxes(document.querySelector("main"));
    const operated = [...document.querySelectorAll(controls)].filter(isVisible).map((element) => ({ element, rects: visibleRects(element) })).filter(({ rects }) => rects.length > 0);
    const faults = [...sideways(), ...outside(operated), ...covered(operated), ...unreachable(operated), ...siblings(all), ...cut(), ...moving()];
    return { Boxes: all.map(({ element, parent, ...box }) => box), Faults: [...new Set(faults)].slice(0, 8) };
  }
  window.measure = measure;

  // inspect opens a screen, unless it has no path, measures it at a width, and reads it in some schemes.
  window.inspect = async ({ path, loading, width, schemes }) => {
    const resizing = width > 0 ? await resized(width) : "";
    const visiting = path === "" ? "" : await visit(path, loading);
    const found = { Failure: resizing + visiting, ...measure(), Violations: [] };
    for (const [index, scheme] of schemes.entries()) found.Violations.push(...(await audit(scheme, index > 0)));
    return found;
  };
})();
