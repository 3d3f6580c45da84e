import { Button } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { Failure } from "../../components/system/failure";
import { Section } from "../../components/system/section";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { isWebAddress } from "./address";
import { Mandate } from "./mandate";

type AutoTopup = Schemas["AutoTopup"];
type Props = { part: Part<Schemas["AutoTopupList"]> };

// AutoTopups are charges of a stored card. The card is stored on the page of the payment provider, and only the owner of
// the tenant confirms the amounts.
export function AutoTopups({ part }: Props) {
  const t = useTranslations("autoTopup");
  const { may } = useSession();
  return (
    <Section title={t("title")} query={part}>
      {({ items }) => {
        const current = items.filter(({ status }) => status !== "ended");
        return (
          <div className="stack">
            <p>{t("text")}</p>
            {current.map((each) => (
              <Mandate key={each.id} mandate={each} />
            ))}
            {may("createAutoTopup") && <Create another={current.length > 0} />}
            <Ended all={items.filter(({ status }) => status === "ended")} />
            <Command text="gpuaas balance auto-topup list" label={t("command")} />
          </div>
        );
      }}
    </Section>
  );
}

// Create opens the page that stores a card.
function Create({ another }: { another: boolean }) {
  const t = useTranslations("autoTopup");
  const billing = useTranslations("billing");
  const [unsafe, setUnsafe] = useState(false);
  const action = useAction((_: null, key) => unwrap(api.POST("/api/v1/payments/auto-topups", { params: { header: { "X-Idempotency-Key": key } } })), [keys.billing]);
  const open = ({ url }: AutoTopup) => {
    if (url !== undefined && isWebAddress(url)) location.assign(url);
    else setUnsafe(true);
  };
  return (
    <div className="stack">
      <Button variant="default" loading={action.pending} onClick={() => action.start(null, open)}>
        {another ? t("createAnother") : t("create")}
      </Button>
      {unsafe && <p role="alert">{billing("topUpUnsafe")}</p>}
      {action.error !== null && <Failure error={action.error} />}
    </div>
  );
}

function Ended({ all }: { all: AutoTopup[] }) {
  const t = useTranslations("autoTopup");
  if (all.length === 0) return null;
  return (
    <details>
      <summary>{t("ended", { count: all.length })}</summary>
      {all.map((each) => (
        <Mandate key={each.id} mandate={each} />
      ))}
    </details>
  );
}
