import { Button } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useAction } from "../../query/action";
import { isWebAddress } from "./address";

// Receipts opens the customer portal of the payment provider, which exists after the first payment.
export function Receipts() {
  const t = useTranslations("billing");
  const [unsafe, setUnsafe] = useState(false);
  const action = useAction((_: null, key) => unwrap(api.POST("/api/v1/payments/customer-portal-session", { params: { header: { "X-Idempotency-Key": key } }, body: {} })), []);
  const open = ({ url }: { url: string }) => (isWebAddress(url) ? location.assign(url) : setUnsafe(true));
  return (
    <div className="stack">
      <Button variant="default" loading={action.pending} onClick={() => action.start(null, open)}>
        {t("receipts")}
      </Button>
      {unsafe && <p role="alert">{t("topUpUnsafe")}</p>}
      {action.error !== null && <Failure error={action.error} />}
    </div>
  );
}
