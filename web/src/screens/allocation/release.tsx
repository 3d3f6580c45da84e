import { Button } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { ConfirmByName } from "../../components/system/confirm";
import { Time } from "../../components/system/time";
import { useToast } from "../../components/system/toasts";
import { useFormat } from "../../i18n/format";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { costAt, hourly } from "./cost";

export const releasable = new Set<string>(["requested", "provisioning", "active", "release_failed"]);

type Props = { allocation: Schemas["Allocation"]; receivedAt: number };

export function Release({ allocation, receivedAt }: Props) {
  const { id, name } = allocation;
  const t = useTranslations("allocation");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const action = useAction(
    (_: null, key) => unwrap(api.POST("/api/v1/allocations/{id}/release", { params: { path: { id }, header: { "X-Idempotency-Key": key } } })),
    [keys.allocations, keys.overview, keys.billing],
  );
  const release = () =>
    action.start(null, () => {
      setOpened(false);
      toast(t("releasing", { name }));
    });
  return (
    <div>
      <Button color="red" onClick={() => setOpened(true)}>
        {t("release")}
      </Button>
      <ConfirmByName
        opened={opened}
        title={t("releaseTitle", { name })}
        name={name}
        action={t("releaseAction")}
        pending={action.pending}
        error={action.error}
        onConfirm={release}
        onClose={() => setOpened(false)}
      >
        <p>{t("releaseText")}</p>
        <Consequences allocation={allocation} receivedAt={receivedAt} />
      </ConfirmByName>
    </div>
  );
}

// Consequences names what ends. An allocation that was never active has used and cost nothing.
function Consequences({ allocation, receivedAt }: Props) {
  const t = useTranslations("allocation");
  const format = useFormat();
  const { login, gpus, sku, region, active_at, expires_at } = allocation;
  const rate = format.money(hourly(allocation));
  if (active_at === undefined) return <p>{t("neverActive")}</p>;
  return (
    <ul>
      <li>{t("endsAccount", { login })}</li>
      <li>{t("endsGpus", { count: gpus, sku, region })}</li>
      <li>{t("endsCharges", { rate, cost: format.money(costAt(allocation, receivedAt, Date.now())) })}</li>
      {expires_at !== undefined && (
        <li>
          {t("endsEarly")} <Time at={expires_at} />
        </li>
      )}
    </ul>
  );
}
