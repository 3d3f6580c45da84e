import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Reasoned } from "../../components/system/reasoned";
import { Remove } from "../../components/system/remove";
import { keys } from "../../query/keys";

type Props = { node: Schemas["Node"] };

const changed = [keys.fleet, keys.ops];

export function Revoke({ node: { name } }: Props) {
  const t = useTranslations("service");
  return (
    <Reasoned
      action={t("revoke")}
      name={name}
      text={t("revokeText", { name })}
      done={t("isRevoked", { name })}
      least={1}
      most={512}
      typed
      input={() => ({})}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/revoke", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}

// Retire is not offered for a node of Git, which leaves the fleet with its file.
export function Retire({ node: { name, source } }: Props) {
  const t = useTranslations("service");
  if (source?.owner === "git") return null;
  return (
    <Remove
      action={t("retire")}
      name={name}
      text={t("retireText", { name })}
      done={t("isRetired", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/admin/nodes/{name}", { params: { path: { name }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={changed}
    />
  );
}
