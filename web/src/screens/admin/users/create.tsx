import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { Failure } from "../../../components/system/failure";
import { useToast } from "../../../components/system/toasts";
import { useAction } from "../../../query/action";
import { keys } from "../../../query/keys";
import { useDraft } from "../../../session/draft";
import { isEmail } from "../../members/invitations";
import { tenantRoles } from "../../members/tenant";
import { platformRoles } from "../users";

const empty = { email: "", name: "", role: "user", tenant: "", tenantRole: "member" as Schemas["TenantRole"] };

const requestOf = ({ email, name, role, tenant, tenantRole }: typeof empty): Schemas["UserRequest"] => ({
  email: email.trim(),
  name: name.trim(),
  role,
  ...(tenant.trim() !== "" && { tenant_id: tenant.trim(), tenant_role: tenantRole }),
});

export function CreateUser() {
  const t = useTranslations("users");
  const toast = useToast();
  const navigate = useNavigate();
  const [draft, change, done] = useDraft("user", empty);
  const action = useAction((body: Schemas["UserRequest"], key) => unwrap(api.POST("/api/v1/admin/users", { params: { header: { "X-Idempotency-Key": key } }, body })), [keys.users]);
  const body = requestOf(draft);
  const complete = isEmail(body.email) && body.name !== "";
  const create = () =>
    action.start(body, ({ id, email }, shown) => {
      done();
      toast(t("isCreated", { email }));
      if (shown) void navigate({ to: "/admin/users/$id", params: { id } });
    });
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h2>{t("create")}</h2>
      <p>{t("createNote")}</p>
      <div className="row">
        <TextInput
          label={t("email")}
          maxLength={254}
          autoComplete="off"
          value={draft.email}
          error={body.email === "" || isEmail(body.email) ? undefined : t("emailWrong")}
          onChange={(event) => change({ email: event.currentTarget.value })}
        />
        <TextInput label={t("newName")} maxLength={128} autoComplete="off" value={draft.name} onChange={(event) => change({ name: event.currentTarget.value })} />
        <NativeSelect label={t("newRole")} value={draft.role} onChange={(event) => change({ role: event.currentTarget.value })} data={platformRoles} />
        <TextInput label={t("newTenant")} maxLength={36} autoComplete="off" value={draft.tenant} onChange={(event) => change({ tenant: event.currentTarget.value })} />
        {draft.tenant.trim() !== "" && (
          <NativeSelect label={t("tenantRole")} value={draft.tenantRole} onChange={(event) => change({ tenantRole: event.currentTarget.value as Schemas["TenantRole"] })} data={tenantRoles} />
        )}
        <Button type="submit" disabled={!complete} loading={action.pending}>
          {t("createAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
