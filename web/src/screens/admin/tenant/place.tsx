import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { Failure } from "../../../components/system/failure";
import { useToast } from "../../../components/system/toasts";
import { useAction } from "../../../query/action";
import { keys } from "../../../query/keys";
import { useDraft } from "../../../session/draft";
import { tenantRoles } from "../../members/tenant";

type Input = { user: string; role: Schemas["TenantRole"] };

// Place adds a user to the tenant.
export function Place({ tenant }: { tenant: string }) {
  const t = useTranslations("tenants");
  const toast = useToast();
  const [draft, change, done] = useDraft<Input>("place", { user: "", role: "member" });
  const user = draft.user.trim();
  const action = useAction(
    ({ user: user_id, role }: Input, key) =>
      unwrap(api.PUT("/api/v1/admin/tenants/{tenant_id}/members/{user_id}", { params: { path: { tenant_id: tenant, user_id }, header: { "X-Idempotency-Key": key } }, body: { role } })),
    [keys.users],
  );
  const place = () =>
    action.start({ user, role: draft.role }, ({ email, role }) => {
      done();
      toast(t("isPlaced", { email, role }));
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (user !== "") place();
      }}
    >
      <h3>{t("place")}</h3>
      <p>{t("placeNote")}</p>
      <div className="row">
        <TextInput label={t("userId")} maxLength={36} autoComplete="off" value={draft.user} onChange={(event) => change({ user: event.currentTarget.value })} />
        <NativeSelect label={t("role")} value={draft.role} onChange={(event) => change({ role: event.currentTarget.value as Input["role"] })} data={tenantRoles} />
        <Button type="submit" variant="default" disabled={user === ""} loading={action.pending}>
          {t("placeAction")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}
