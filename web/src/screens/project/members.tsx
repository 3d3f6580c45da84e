import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Remove } from "../../components/system/remove";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { RoleOf } from "../members/role";
import { AddMember } from "./add-member";
import { putMember, roles } from "./membership";

type Member = Schemas["Member"];
type Project = Pick<Schemas["Project"], "id" | "name">;
type Props = { project: Project; part: Part<Schemas["MemberList"]>; editable: boolean };

export function Members({ project, part, editable }: Props) {
  const t = useTranslations("members");
  return (
    <Section title={t("inProject")} query={part}>
      {(first) => (
        <div className="stack">
          <List project={project} first={first} editable={editable} />
          {editable && <AddMember project={project} first={first} />}
          <Command text={`gpuaas project members ${project.name}`} label={t("copyMembers")} />
        </div>
      )}
    </Section>
  );
}

function List({ project, first, editable }: { project: Project; first: Schemas["MemberList"]; editable: boolean }) {
  const t = useTranslations("members");
  const { me } = useSession();
  const own = me.user?.id;
  const columns = useMemo(
    (): Column<Member>[] => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "email", header: t("email"), cell: ({ email }) => email },
      // Users do not take their own rights away by a slip.
      { id: "role", header: t("role"), cell: (member) => (editable && member.user_id !== own ? <Change project={project} member={member} /> : member.role) },
      ...(editable ? [{ id: "remove", header: t("change"), cell: (member: Member) => (member.user_id === own ? t("you") : <Take project={project} member={member} />) }] : []),
    ],
    [t, project, editable, own],
  );
  return (
    <CursorTable
      first={first}
      label={t("inProject")}
      queryKey={keys.projectMembers(project.id)}
      load={(cursor) => unwrap(api.GET("/api/v1/projects/{project_id}/members", { params: { path: { project_id: project.id }, query: { cursor, limit: 50 } } }))}
      columns={columns}
      rowKey={({ user_id }) => user_id}
      empty={<Empty text={t("none")} />}
    />
  );
}

function Change({ project, member }: { project: Project; member: Member }) {
  return <RoleOf member={member} roles={roles} run={(role, key) => putMember(project.id, member.user_id, role, key)} invalidates={[keys.project(project.id), keys.projects]} />;
}

function Take({ project, member: { user_id, name, email } }: { project: Project; member: Member }) {
  const t = useTranslations("members");
  return (
    <Remove
      action={t("remove")}
      name={email}
      text={t("removeFromProject", { name, project: project.name })}
      done={t("removed", { name })}
      typed={false}
      run={(key) => unwrap(api.DELETE("/api/v1/projects/{project_id}/members/{user_id}", { params: { path: { project_id: project.id, user_id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.project(project.id), keys.projects]}
    />
  );
}
