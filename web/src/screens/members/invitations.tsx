import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Failure } from "../../components/system/failure";
import { Remove } from "../../components/system/remove";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useDraft } from "../../session/draft";
import { tenantRoles } from "./tenant";

type Invitation = Schemas["Invitation"];

export function Invitations() {
  const t = useTranslations("members");
  const columns = useMemo(
    (): Column<Invitation>[] => [
      { id: "email", header: t("email"), cell: ({ email }) => email },
      { id: "role", header: t("role"), cell: ({ role }) => role },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => <Time at={expires_at} /> },
      { id: "revoke", header: t("change"), cell: (invitation) => <Revoke invitation={invitation} /> },
    ],
    [t],
  );
  return (
    <section className="panel stack">
      <h2>{t("invitations")}</h2>
      <CursorTable
        label={t("invitations")}
        queryKey={keys.tenantInvitations}
        load={(cursor) => unwrap(api.GET("/api/v1/tenant/invitations", { params: { query: { cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("noInvitations")} />}
      />
      <Invite />
      <Command text="gpuaas tenant invitations" label={t("copyInvitations")} />
    </section>
  );
}

function Revoke({ invitation: { id, email } }: { invitation: Invitation }) {
  const t = useTranslations("members");
  return (
    <Remove
      action={t("revoke")}
      name={email}
      text={t("revokeText", { email })}
      done={t("revoked", { email })}
      typed={false}
      run={(key) => unwrap(api.DELETE("/api/v1/tenant/invitations/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.tenantInvitations]}
    />
  );
}

export const isEmail = (email: string) => /^[^\s@]+@[^\s@]+$/.test(email);

function Invite() {
  const t = useTranslations("members");
  const toast = useToast();
  const [draft, change, done] = useDraft("invitation", { email: "", role: "member" as Schemas["TenantRole"] });
  const action = useAction(
    (body: Schemas["InvitationRequest"], key) => unwrap(api.POST("/api/v1/tenant/invitations", { params: { header: { "X-Idempotency-Key": key } }, body })),
    [keys.tenantInvitations],
  );
  const email = draft.email.trim();
  const invite = () =>
    action.start({ email, role: draft.role }, () => {
      done();
      toast(t("invited", { email }));
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (isEmail(email)) invite();
      }}
    >
      <h3>{t("invite")}</h3>
      <p>{t("inviteNote")}</p>
      <div className="row">
        <TextInput
          label={t("email")}
          maxLength={254}
          autoComplete="off"
          value={draft.email}
          error={email === "" || isEmail(email) ? undefined : t("emailWrong")}
          onChange={(event) => change({ email: event.currentTarget.value })}
        />
        <NativeSelect label={t("role")} value={draft.role} onChange={(event) => change({ role: event.currentTarget.value as Schemas["TenantRole"] })} data={tenantRoles} />
        <Button type="submit" disabled={!isEmail(email)} loading={action.pending}>
          {t("inviteAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
