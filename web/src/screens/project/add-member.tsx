import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys, stale } from "../../query/keys";
import { useSession } from "../../session/session";
import { type Role, putMember, roles } from "./membership";

type Project = Pick<Schemas["Project"], "id" | "name">;

const pageOf = (project: string, cursor?: string) => unwrap(api.GET("/api/v1/projects/{project_id}/members", { params: { path: { project_id: project }, query: { cursor, limit: 200 } } }));

// isMember reads every page, because the screen may show the first one only.
async function isMember(project: string, user: string): Promise<boolean> {
  let cursor: string | undefined;
  do {
    const page = await pageOf(project, cursor);
    if (page.items.some(({ user_id }) => user_id === user)) return true;
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return false;
}

// AddMember offers the members of the tenant to those who can list them. Others enter the id of a user, and so does who needs a
// member that is not on the first page. Who is a member already keeps the role, which the list changes.
export function AddMember({ project, first }: { project: Project; first: Schemas["MemberList"] }) {
  const t = useTranslations("members");
  const toast = useToast();
  const { may } = useSession();
  const [user, setUser] = useState("");
  const [role, setRole] = useState<Role>("member");
  const all = useQuery({
    queryKey: keys.memberChoice,
    queryFn: () => unwrap(api.GET("/api/v1/tenant/members", { params: { query: { limit: 200 } } })),
    staleTime: stale.catalogue,
    enabled: may("listTenantMembers"),
  });
  const [already, setAlready] = useState(false);
  const action = useAction(
    async (input: { user: string; role: Role }, key) => {
      const member = await isMember(project.id, input.user);
      if (!member) await putMember(project.id, input.user, input.role, key);
      return member;
    },
    [keys.project(project.id), keys.projects],
  );
  const pick = (id: string) => {
    setUser(id);
    setAlready(false);
  };
  const others = (all.data?.items ?? []).filter(({ user_id }) => first.items.every((member) => member.user_id !== user_id));
  const add = () =>
    action.start({ user: user.trim(), role }, (member) => {
      setAlready(member);
      if (member) return;
      setUser("");
      toast(t("added", { project: project.name }));
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (user.trim() !== "") add();
      }}
    >
      <h3>{t("add")}</h3>
      <div className="row">
        {all.data !== undefined && (
          <NativeSelect
            label={t("user")}
            value={user}
            onChange={(event) => pick(event.currentTarget.value)}
            data={[{ value: "", label: t("choose") }, ...others.map(({ user_id, name, email }) => ({ value: user_id, label: t("nameAndEmail", { name, email }) }))]}
          />
        )}
        {(all.data === undefined || all.data.next_cursor !== undefined) && (
          <TextInput
            label={all.data === undefined ? t("userId") : t("idInstead")}
            description={t("userIdNote")}
            autoComplete="off"
            value={user}
            onChange={(event) => pick(event.currentTarget.value)}
          />
        )}
        <NativeSelect label={t("role")} value={role} onChange={(event) => setRole(event.currentTarget.value as Role)} data={roles} />
        <Button type="submit" disabled={user.trim() === ""} loading={action.pending}>
          {t("addAction")}
        </Button>
      </div>
      {already && <p role="alert">{t("already")}</p>}
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
