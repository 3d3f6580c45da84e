import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Reasoned } from "../../components/system/reasoned";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";

// Breaker clears the breaker while it is open.
export function Breaker({ panel: { name, values } }: { panel: Schemas["OpsPanel"] }) {
  const t = useTranslations("ops");
  const { may } = useSession();
  if (name !== "breaker" || values["open"] !== 1 || !may("clearBreaker")) return null;
  return (
    <Reasoned
      action={t("clear")}
      name={t("breaker")}
      text={t("clearText")}
      done={t("isCleared")}
      least={1}
      most={512}
      input={() => ({})}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/breaker/clear", { params: { header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={[keys.ops, keys.fleet]}
    />
  );
}
