import type { Schemas } from "../../api/client";

type Project = Pick<Schemas["Project"], "id">;

// projectOf is the project of a new allocation: that of the draft, else that of the session, else the first one. Only
// projects in which the user may create count. A draft can name one that is deleted, or of another user.
export const projectOf = (allowed: Project[], drafted: string, own: string | undefined): string =>
  (allowed.find(({ id }) => id === drafted) ?? allowed.find(({ id }) => id === own) ?? allowed[0])?.id ?? "";
