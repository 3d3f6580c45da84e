import { createRootRoute } from "@tanstack/react-router";
import { NotFound } from "./notfound";
import { Shell } from "./shell";

export const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined);

// A filter that was altered by hand becomes a text, which the server checks.
export const filtersOf =
  <Name extends string>(...names: Name[]) =>
  (search: Record<string, unknown>): { [name in Name]?: string } =>
    Object.fromEntries(names.map((name) => [name, text(search[name])])) as { [name in Name]?: string };
