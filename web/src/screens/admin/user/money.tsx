import { NativeSelect, TextInput } from "@mantine/core";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { Reasoned } from "../../../components/system/reasoned";
import { minorOf, useFormat } from "../../../i18n/format";
import { keys } from "../../../query/keys";

type Kind = "unspent" | "charge";
type Props = { user: Schemas["UserDetail"]; balance: Schemas["Money"] };

const changed = [keys.users, keys.tenants, keys.payments];
const least = 3;
const most = 512;

// Money returns money to the tenant of the user, or corrects its balance. The ledger stores the reason of both.
export function Money(props: Props) {
  const t = useTranslations("payments");
  return (
    <section className="panel stack">
      <h2>{t("money")}</h2>
      <div className="row">
        <Refund {...props} />
        <Adjust {...props} />
      </div>
    </section>
  );
}

type AmountProps = { currency: string; text: string; change: (text: string) => void };

const minorIn = (amount: string, currency: string) => minorOf(amount, currency) ?? 0;

function Amount({ currency, text, change }: AmountProps) {
  const t = useTranslations("payments");
  return (
    <TextInput
      label={t("amountIn", { currency })}
      inputMode="decimal"
      autoComplete="off"
      value={text}
      error={text === "" || minorIn(text, currency) > 0 ? undefined : t("amountWrong")}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}

function Refund({ user: { id, name, email }, balance }: Props) {
  const t = useTranslations("payments");
  const format = useFormat();
  const { currency } = balance;
  return (
    <Reasoned
      action={t("refund")}
      name={email}
      text={t("refundText", { name, balance: format.money(balance) })}
      done={t("isRefunded")}
      least={least}
      most={most}
      typed
      fields={() => ({ kind: "unspent" as Kind, amount: "", payment: "" })}
      input={({ kind, amount, payment }) => {
        const amount_minor = minorIn(amount, currency);
        const session = payment.trim();
        return amount_minor > 0 ? { kind, amount_minor, currency, ...(session !== "" && { payment_session_id: session }) } : undefined;
      }}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/users/{user_id}/refunds", { params: { path: { user_id: id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ kind, amount, payment }, change) => (
        <>
          <NativeSelect
            label={t("kind")}
            value={kind}
            onChange={(event) => change({ kind: event.currentTarget.value === "charge" ? "charge" : "unspent" })}
            data={[
              { value: "unspent", label: t("unspent") },
              { value: "charge", label: t("charge") },
            ]}
          />
          <Amount currency={currency} text={amount} change={(amount) => change({ amount })} />
          <TextInput label={t("payment")} description={t("paymentNote")} maxLength={36} autoComplete="off" value={payment} onChange={(event) => change({ payment: event.currentTarget.value })} />
        </>
      )}
    </Reasoned>
  );
}

function Adjust({ user: { id, name, email }, balance }: Props) {
  const t = useTranslations("payments");
  const format = useFormat();
  const { currency } = balance;
  return (
    <Reasoned
      action={t("adjust")}
      name={email}
      text={t("adjustText", { name, balance: format.money(balance) })}
      done={t("isAdjusted")}
      least={least}
      most={most}
      typed
      fields={() => ({ sign: 1, amount: "" })}
      input={({ sign, amount }) => {
        const minor = minorIn(amount, currency);
        return minor > 0 ? { amount_minor: sign * minor, currency } : undefined;
      }}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/users/{user_id}/balance", { params: { path: { user_id: id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ sign, amount }, change) => (
        <>
          <NativeSelect
            label={t("direction")}
            value={String(sign)}
            onChange={(event) => change({ sign: Number(event.currentTarget.value) })}
            data={[
              { value: "1", label: t("add") },
              { value: "-1", label: t("subtract") },
            ]}
          />
          <Amount currency={currency} text={amount} change={(amount) => change({ amount })} />
          {minorIn(amount, currency) > 0 && <p>{t("becomes", { balance: format.minor(balance.amount_minor + sign * minorIn(amount, currency), currency) })}</p>}
        </>
      )}
    </Reasoned>
  );
}
