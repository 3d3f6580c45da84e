import { type Schemas, api, unwrap } from "../../api/client";

export type Role = Schemas["ProjectRole"];

export const roles: Role[] = ["admin", "member", "viewer"];

export const putMember = (project: string, user: string, role: Role, key: string) =>
  unwrap(api.PUT("/api/v1/projects/{project_id}/members/{user_id}", { params: { path: { project_id: project, user_id: user }, header: { "X-Idempotency-Key": key } }, body: { role } }));
