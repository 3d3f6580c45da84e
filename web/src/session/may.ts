import platform from "./platform.json";
import roles from "./roles.json";

// Action is an operation that a screen offers. Go tests compare both lists with policies/roles.cue. The role in the
// platform counts for the operations of the platform only: operators do not act in a tenant through its screens.
export type Action = keyof typeof roles | keyof typeof platform;
export type Roles = { tenant: string; projects: string[]; platform?: string };

const allowed: Record<Action, string[]> = { ...roles, ...platform };

// mayDo hides what would return 403.
export const mayDo = (action: Action, { tenant, projects, platform = "" }: Roles): boolean =>
  allowed[action].includes(platform) || allowed[action].includes(`tenant.${tenant}`) || projects.some((role) => allowed[action].includes(`project.${role}`));
