import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Remove } from "../../components/system/remove";
import { Empty } from "../../components/system/states";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { RoleOf } from "./role";

type Member = Schemas["Member"];

export const tenantRoles: Schemas["TenantRole"][] = ["owner", "member", "viewer", "billing"];

export function TenantMembers() {
  const t = useTranslations("members");
  const { me } = useSession();
  const columns = useMemo(
    (): Column<Member>[] => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "email", header: t("email"), cell: ({ email }) => email },
      // Users do not take their own rights away by a slip.
      { id: "role", header: t("role"), cell: (member) => (member.user_id === me.user?.id ? member.role : <Change member={member} />) },
      { id: "remove", header: t("change"), cell: (member) => (member.user_id === me.user?.id ? t("you") : <Take member={member} />) },
    ],
    [t, me.user?.id],
  );
  return (
    <section className="panel stack">
      <h2>{t("inTenant")}</h2>
      <CursorTable
        label={t("inTenant")}
        queryKey={keys.tenantMembers}
        load={(cursor) => unwrap(api.GET("/api/v1/tenant/members", { params: { query: { cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ user_id }) => user_id}
        empty={<Empty text={t("none")} />}
      />
      <Command text="gpuaas tenant members" label={t("copyMembers")} />
    </section>
  );
}

function Change({ member }: { member: Member }) {
  return (
    <RoleOf
      member={member}
      roles={tenantRoles}
      run={(role, key) => unwrap(api.PUT("/api/v1/tenant/members/{user_id}", { params: { path: { user_id: member.user_id }, header: { "X-Idempotency-Key": key } }, body: { role } }))}
      invalidates={[keys.members]}
    />
  );
}

function Take({ member: { user_id, name, email } }: { member: Member }) {
  const t = useTranslations("members");
  return (
    <Remove
      action={t("remove")}
      name={email}
      text={t("removeFromTenant", { name })}
      done={t("removed", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/tenant/members/{user_id}", { params: { path: { user_id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.members, keys.projects]}
    />
  );
}
