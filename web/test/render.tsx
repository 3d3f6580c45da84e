import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { type ReactNode, act } from "react";
import { type Root, createRoot } from "react-dom/client";
import { afterEach } from "vitest";
import { theme } from "../src/theme/theme";
import { LiveRegion } from "../src/components/a11y/live";
import { Toasts } from "../src/components/system/toasts";
import en from "../src/i18n/en";
import { Texts } from "../src/i18n/provider";
import { newQueryClient } from "../src/query/client";

const roots: Root[] = [];

// A screen that stays mounted would call the network of the next test.
afterEach(() => act(async () => roots.splice(0).forEach((root) => root.unmount())));

// render mounts an element as the portal does, and returns its container.
export async function render(element: ReactNode, messages: typeof en = en): Promise<HTMLElement> {
  const container = document.body.appendChild(document.createElement("div"));
  const root = createRoot(container);
  roots.push(root);
  await act(async () =>
    root.render(
      <MantineProvider theme={theme}>
        <Texts messages={messages}>
          <QueryClientProvider client={newQueryClient()}>
            <LiveRegion>
              <Toasts>{element}</Toasts>
            </LiveRegion>
          </QueryClientProvider>
        </Texts>
      </MantineProvider>,
    ),
  );
  return container;
}

// until waits for what the screen will show.
export async function until(check: () => boolean) {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (check()) return;
    await act(() => new Promise((resolve) => setTimeout(resolve, 10)));
  }
  throw new Error(`the page shows: ${document.body.textContent}`);
}

export const click = (element: Element | null | undefined) => act(async () => (element as HTMLElement).click());

export const button = (text: string) => [...document.querySelectorAll("button")].find((each) => each.textContent?.includes(text));

// pause lets the page do what it does next.
export const pause = (milliseconds: number) => act(() => new Promise((resolve) => setTimeout(resolve, milliseconds)));

// enter types a text into the field with a label.
export const enter = (label: string, text: string) =>
  act(async () => {
    const fieldOf = ({ htmlFor }: HTMLLabelElement) => document.getElementById(htmlFor) as HTMLInputElement | HTMLSelectElement;
    const labels = [...document.querySelectorAll("label")].filter((each) => fieldOf(each)?.type !== "checkbox");
    const found = labels.find((each) => each.textContent === label) ?? labels.find((each) => each.textContent?.includes(label));
    const field = fieldOf(found!);
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field) as object, "value")!.set!.call(field, text);
    field.dispatchEvent(new Event(field instanceof HTMLSelectElement ? "change" : "input", { bubbles: true }));
  });
