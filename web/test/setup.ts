import { afterEach, vi } from "vitest";

// The terminal draws on a canvas and measures text, which happy-dom cannot. e2e/portal_terminal_test.go uses the real one.
vi.mock("../src/terminal/view", () => ({
  show: () => ({ write: () => {}, paste: () => {}, reset: () => {}, size: () => [80, 24], focus: () => {}, find: () => Promise.resolve(false), readAloud: () => {}, dispose: () => {} }),
}));

// The screens call the API at the address of the page.
location.href = "http://localhost/portal/";
Object.defineProperty(window, "matchMedia", {
  value: () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }),
});
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
} as unknown as typeof ResizeObserver;
(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

afterEach(() => {
  document.body.replaceChildren();
  localStorage.clear();
  sessionStorage.clear();
});
