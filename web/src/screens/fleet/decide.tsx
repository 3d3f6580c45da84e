import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Reasoned } from "../../components/system/reasoned";
import { keys } from "../../query/keys";

type Props = { report: Schemas["FaultReport"] };

const changed = [keys.fleet, keys.ops];

// DecideFault confirms or rejects a fault report, with what follows for slots and charges.
export function DecideFault({ report }: Props) {
  return (
    <div className="row">
      <Decision report={report} confirmed />
      <Decision report={report} confirmed={false} />
    </div>
  );
}

function Decision({ report: { id, node_name, gpu }, confirmed }: Props & { confirmed: boolean }) {
  const t = useTranslations("nodes");
  const node = node_name ?? "";
  return (
    <Reasoned
      action={confirmed ? t("confirm") : t("dismiss")}
      name={t("faultOf", { node })}
      id={id}
      text={confirmed ? t("confirmText", { target: gpu ?? node }) : t("dismissText")}
      done={confirmed ? t("isConfirmed") : t("isDismissed")}
      least={1}
      most={512}
      input={() => ({ confirmed })}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/fault-reports/{id}/decide", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}
