import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { Reasoned } from "../../../components/system/reasoned";
import { keys } from "../../../query/keys";

// The server decides by deadline and reports of the node whether it forces the release of one of these.
export const forceable = new Set<string>(["provisioning", "active", "releasing", "release_failed"]);

// ForceRelease needs the name, a reason and a recent sign-in, to which the error of the server leads.
export function ForceRelease({ allocation: { id, name, tenant_name } }: { allocation: Schemas["Allocation"] }) {
  const t = useTranslations("adminAllocations");
  return (
    <section className="panel stack">
      <h2>{t("release")}</h2>
      <p>{t("releaseText", { tenant: tenant_name ?? "" })}</p>
      <Reasoned
        action={t("release")}
        name={name}
        text={t("releaseText", { tenant: tenant_name ?? "" })}
        done={t("releasing", { name })}
        least={1}
        most={512}
        typed
        input={() => ({})}
        run={(body, key) => unwrap(api.POST("/api/v1/admin/allocations/{id}/force-release", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
        invalidates={[keys.adminAllocations, keys.fleet, keys.ops]}
      />
    </section>
  );
}
