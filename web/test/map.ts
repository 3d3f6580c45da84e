// @ts-expect-error the package has no types
import { load } from "js-yaml";
import { readFileSync } from "node:fs";

export type Screen = { route: string; file: string; example: string; roles: string[]; operations: string[]; subjects: string[]; states: string[] };
type ScreenMap = { screens: Screen[]; shell: string[]; viewer: string[]; without_screen: Record<string, string> };

// map is the map of the portal.
export const map = load(readFileSync("screens.yaml", "utf8")) as ScreenMap;
