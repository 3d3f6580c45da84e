import { createRootRoute } from "@tanstack/react-router";
import { NotFound } from "./notfound";
import { Shell } from "./shell";

export const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

// A filter that was altered by hand becomes a text, which the server checks. The router has read it as JSON.
const text = (value: unknown) => (value === undefined || value === "" ? undefined : typeof value === "string" ? value : JSON.stringify(value));

export const filtersOf =
  <Name extends string>(...names: Name[]) =>
  (search: Record<string, unknown>): { [name in Name]?: string } =>
    Object.fromEntries(names.map((name) => [name, text(search[name])])) as { [name in Name]?: string };
