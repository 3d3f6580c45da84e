import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { newRouter } from "../src/routes/router";
import { click, render, until } from "./render";

// What the tests of the screens of operators have in common.

export const open = async (path: string) => {
  const router = newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] }));
  await render(<RouterProvider router={router as never} />);
  return router;
};

export const text = () => document.body.textContent ?? "";
export const shows = (part: string) => until(() => text().includes(part));
export const labelled = (label: string) => document.querySelector(`[aria-label="${label}"]`);
export const confirmButton = () => document.querySelector<HTMLButtonElement>('[role="dialog"] button[type="submit"]');
export const written = (calls: Request[]) => calls.filter(({ method }) => method !== "GET");
export const asked = (calls: Request[], path: string) => calls.filter(({ url }) => new URL(url).pathname === path).map(({ url }) => new URL(url).searchParams);

// opens clicks the button of a change, and waits for its dialog.
export const opens = async (label: string) => {
  await until(() => labelled(label) !== null);
  await click(labelled(label));
  await until(() => confirmButton() !== null);
};
