import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { majorOf, minorOf } from "../../i18n/format";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

// Terms are the amounts with which the owner permits charges. To confirm them again resumes a paused automatic top-up.
export function Terms({ mandate }: { mandate: Schemas["AutoTopup"] }) {
  const t = useTranslations("autoTopup");
  const toast = useToast();
  const { id, currency } = mandate;
  const textOf = (minor: number) => (minor === 0 ? "" : majorOf(minor, currency));
  const [threshold, setThreshold] = useState(textOf(mandate.threshold_minor));
  const [amount, setAmount] = useState(textOf(mandate.amount_minor));
  const [cap, setCap] = useState(textOf(mandate.monthly_cap_minor));
  const action = useAction(
    (body: Schemas["AutoTopupTerms"], key) => unwrap(api.PUT("/api/v1/payments/auto-topups/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body })),
    [keys.billing],
  );
  const [threshold_minor, amount_minor, monthly_cap_minor] = [threshold, amount, cap].map((text) => minorOf(text, currency) || undefined);
  const confirm = () => {
    if (threshold_minor === undefined || amount_minor === undefined || monthly_cap_minor === undefined) return;
    action.start({ threshold_minor, amount_minor, monthly_cap_minor, currency }, () => toast(t("confirmed")));
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        confirm();
      }}
    >
      <p>{t("consent")}</p>
      <div className="row">
        <Amount label={t("thresholdIn", { currency })} text={threshold} wrong={threshold_minor === undefined} change={setThreshold} />
        <Amount label={t("amountIn", { currency })} text={amount} wrong={amount_minor === undefined} change={setAmount} />
        <Amount label={t("capIn", { currency })} text={cap} wrong={monthly_cap_minor === undefined} change={setCap} />
        <Button type="submit" disabled={[threshold_minor, amount_minor, monthly_cap_minor].includes(undefined)} loading={action.pending}>
          {mandate.status === "paused" ? t("resume") : t("confirm")}
        </Button>
      </div>
      {action.error !== null && <Failure error={action.error} />}
    </form>
  );
}

function Amount({ label, text, wrong, change }: { label: string; text: string; wrong: boolean; change: (text: string) => void }) {
  const t = useTranslations("billing");
  return <TextInput label={label} inputMode="decimal" value={text} error={text !== "" && wrong ? t("topUpWrong") : undefined} onChange={(event) => change(event.currentTarget.value)} />;
}
