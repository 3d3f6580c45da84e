import { Anchor } from "@mantine/core";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Remove } from "../../components/system/remove";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { isWebAddress } from "./address";
import { Terms } from "./terms";

type AutoTopup = Schemas["AutoTopup"];

const confirmable = new Set<string>(["unconfirmed", "active", "paused"]);

// Mandate is one automatic top-up, with its state and what can be done about it.
export function Mandate({ mandate }: { mandate: AutoTopup }) {
  const t = useTranslations("autoTopup");
  const { may } = useSession();
  const { id, status, url } = mandate;
  return (
    <div className="stack">
      <Facts mandate={mandate} />
      {status === "pending" && url !== undefined && isWebAddress(url) && (
        <Anchor href={url} rel="noreferrer">
          {t("store")}
        </Anchor>
      )}
      {may("confirmAutoTopup") && confirmable.has(status) && <Terms mandate={mandate} />}
      {may("deleteAutoTopup") && status !== "ended" && (
        <Remove
          action={t("end")}
          name={t("title")}
          text={t("endText")}
          done={t("hasEnded")}
          typed={false}
          run={(key) => unwrap(api.DELETE("/api/v1/payments/auto-topups/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
          invalidates={[keys.billing]}
        />
      )}
    </div>
  );
}

function Facts({ mandate }: { mandate: AutoTopup }) {
  const t = useTranslations("autoTopup");
  const format = useFormat();
  const word = useWords();
  const { currency, status, reason, failures, next_charge_at, confirmed_at } = mandate;
  const amounts: [string, number][] = [
    [t("threshold"), mandate.threshold_minor],
    [t("amount"), mandate.amount_minor],
    [t("cap"), mandate.monthly_cap_minor],
    [t("charged"), mandate.charged_this_month_minor],
  ];
  return (
    <dl className="facts">
      <dt>{t("state")}</dt>
      <dd>
        {word(status)}
        {(status === "pending" || status === "unconfirmed") && <p>{t(`notes.${status}`)}</p>}
        {reason !== undefined && <p className="dim">{reason}</p>}
        {failures > 0 && <p>{t("failures", { count: failures })}</p>}
      </dd>
      {confirmed_at !== undefined && amounts.map(([name, minor]) => <Fact key={name} name={name} value={format.minor(minor, currency)} />)}
      {next_charge_at !== undefined && (
        <>
          <dt>{t("next")}</dt>
          <dd>
            <Time at={next_charge_at} />
          </dd>
        </>
      )}
    </dl>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
